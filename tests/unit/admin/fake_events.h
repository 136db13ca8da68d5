// FakeEvents: an EventSource whose events the test makes up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "daemon/admin/event_source.h"

namespace pulsewheel {

/// Event n of epoch 3 is {"n":n}; an event may belong to a user. add() and forget() on any thread,
/// the rest on the HTTP thread, as its executor says.
class FakeEvents final : public EventSource {
 public:
  static constexpr std::uint64_t kEpoch = 3;

  void attach(boost::asio::io_context::executor_type http) { http_ = http; }

  void add(std::string uid = {}) {
    const std::lock_guard lock(mutex_);
    uids_.push_back(std::move(uid));
    for (auto& [id, on_news] : std::exchange(waiting_, {})) {
      boost::asio::post(*http_, on_news);
    }
  }
  /// Cursors before `seq` are too old from now on.
  void forget(std::uint64_t seq) {
    const std::lock_guard lock(mutex_);
    forgotten_ = seq;
  }
  std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  After after(EventCursor cursor, std::string_view uid) override {
    const std::lock_guard lock(mutex_);
    if (cursor.epoch != kEpoch) return Lost{"other_epoch", {kEpoch, uids_.size()}};
    if (cursor.seq < forgotten_) return Lost{"too_old", {kEpoch, uids_.size()}};
    if (cursor.seq >= uids_.size()) return Nothing{};
    const auto sse = std::make_shared<std::string>();
    std::uint64_t seq = cursor.seq;
    for (int i = 0; i < kEventsPerText && seq < uids_.size(); ++i, ++seq) {
      if (!uid.empty() && uid != uids_[seq]) continue;
      const std::string number = std::to_string(seq + 1);
      *sse += "id: 3-" + number + "\ndata: {\"n\":" + number + "}\n\n";
    }
    return Text{sse, *sse, {kEpoch, seq}};
  }
  EventCursor back(std::uint64_t events) const override {
    const std::lock_guard lock(mutex_);
    return {kEpoch, uids_.size() - std::min<std::uint64_t>(events, uids_.size())};
  }
  WaitId wait(EventCursor cursor, std::function<void()> on_news) override {
    const std::lock_guard lock(mutex_);
    if (cursor.seq < uids_.size()) {
      boost::asio::post(*http_, on_news);
    } else {
      waiting_.emplace(++last_wait_, std::move(on_news));
    }
    return last_wait_;
  }
  void stop_waiting(WaitId wait) noexcept override {
    const std::lock_guard lock(mutex_);
    waiting_.erase(wait);
  }
  boost::asio::io_context::executor_type executor() override { return *http_; }

 private:
  static constexpr int kEventsPerText = 3;

  mutable std::mutex mutex_;
  std::optional<boost::asio::io_context::executor_type> http_;
  std::vector<std::string> uids_;
  std::uint64_t forgotten_ = 0;
  WaitId last_wait_ = 0;
  std::map<WaitId, std::function<void()>> waiting_;
};

}  // namespace pulsewheel
