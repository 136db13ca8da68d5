// FakeSource: a StatusSource that says what the test tells it to.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <nlohmann/json.hpp>

#include "daemon/admin/status_source.h"

namespace pulsewheel {

/// Set up before the server starts; asked by the HTTP thread afterwards.
class FakeSource : public StatusSource {
 public:
  bool is_live = true;
  std::string not_ready_because;  // empty: ready
  nlohmann::json status_json = {{"users_online", 3}};
  std::vector<prometheus::MetricFamily> families;
  std::optional<UserReport> user = UserReport{"offline", {}, {}, {}};
  std::optional<KickReport> kick_report = KickReport{true, 1};
  std::optional<std::vector<UserLine>> lines = std::vector<UserLine>{};
  std::optional<UserPage> page = UserPage{};
  bool knows_cursor = true;
  std::optional<Explanation> explanation = Explanation{};
  std::optional<WheelReport> wheel = WheelReport{1.0, {WheelReport::OfShard{}}};
  std::optional<HoldReport> hold_report = HoldReport{HoldReport::Verdict::kHeld, {1, 2}};
  std::optional<ReleaseReport> release_report = ReleaseReport{true, 1'500};
  std::optional<DrainReport> drain_report = DrainReport{12, 10'000};
  std::optional<ReloadReport> reload_report = ReloadReport{};
  bool keep_users_waiting = false;  // callbacks are kept, and never called

  bool live() const override { return is_live; }
  bool ready(std::string& why) const override {
    why = not_ready_because;
    return why.empty();
  }
  nlohmann::json status() const override { return status_json; }
  std::vector<prometheus::MetricFamily> collect() const override { return families; }
  void async_user(std::string uid, UserCallback done) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(uid));
      if (keep_users_waiting) {
        waiting_.push_back(std::move(done));
        return;
      }
    }
    done(user);
  }

  void async_kick(std::string uid, KickCallback done) override {
    {
      const std::lock_guard lock(mutex_);
      kicked_.push_back(std::move(uid));
    }
    done(kick_report);
  }

  void async_hold(std::string uid, std::chrono::milliseconds length,
                  Callback<HoldReport> done) override {
    {
      const std::lock_guard lock(mutex_);
      held_.emplace_back(std::move(uid), length);
    }
    done(hold_report);
  }
  void async_release(std::string uid, Callback<ReleaseReport> done) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(uid));
    }
    done(release_report);
  }
  void async_drain(Callback<DrainReport> done) override { done(drain_report); }
  void async_reload(Callback<ReloadReport> done) override { done(reload_report); }
  void async_query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done) override {
    {
      const std::lock_guard lock(mutex_);
      asked_ = std::move(uids);
    }
    done(lines);
  }
  bool async_list(std::string_view cursor, std::size_t limit, Callback<UserPage> done) override {
    {
      const std::lock_guard lock(mutex_);
      listed_.emplace_back(cursor, limit);
    }
    if (knows_cursor) done(page);
    return knows_cursor;
  }
  void async_explain(std::string uid, Callback<Explanation> done) override {
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(uid));
    }
    done(explanation);
  }
  void async_wheel(Callback<WheelReport> done) override { done(wheel); }

  /// The uids that were to be kicked, decoded.
  std::vector<std::string> kicked() const {
    const std::lock_guard lock(mutex_);
    return kicked_;
  }
  /// The uids asked for, decoded.
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  /// Who was to be held, and for how long.
  std::vector<std::pair<std::string, std::chrono::milliseconds>> held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  /// Cursor and limit of each page asked for.
  std::vector<std::pair<std::string, std::size_t>> listed() const {
    const std::lock_guard lock(mutex_);
    return listed_;
  }
  /// The callbacks that are kept. Call them after the server has stopped.
  std::vector<UserCallback> take_waiting() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<std::string> kicked_;
  std::vector<std::pair<std::string, std::chrono::milliseconds>> held_;
  std::vector<std::pair<std::string, std::size_t>> listed_;
  std::vector<UserCallback> waiting_;
};

}  // namespace pulsewheel
