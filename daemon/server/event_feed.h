// EventFeed: the event ring as the HTTP port sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <boost/asio/io_context.hpp>

#include "daemon/admin/event_source.h"
#include "daemon/base/counters.h"
#include "daemon/base/time.h"
#include "daemon/events/event_ring.h"

namespace pulsewheel {

/// Owns the ring, and wakes those who wait for news of it on the HTTP thread: all together, and the
/// more they are the less often, so that a trickle of edges to a thousand followers does not cost
/// a thousand system calls an edge.
///
/// Main makes it and attaches it before the first edge; all else is for the HTTP thread. Outlives
/// the HTTP server.
class EventFeed final : public EventSource {
 public:
  explicit EventFeed(const EventRing::Options& options);

  void attach(boost::asio::io_context::executor_type http);

  /// For the sequencer; it must stop before the feed goes.
  [[nodiscard]] EdgeSink& sink() noexcept { return ring_; }
  /// How often a follower has been told to resync. Any thread.
  [[nodiscard]] const Counter& resyncs() const noexcept { return resyncs_; }

  After after(EventCursor cursor, std::string_view uid) override;
  [[nodiscard]] EventCursor back(std::uint64_t events) const override { return ring_.back(events); }
  [[nodiscard]] const EventRing& ring() const noexcept { return ring_; }
  [[nodiscard]] WaitId wait(EventCursor cursor, std::function<void()> on_news) override;
  void stop_waiting(WaitId wait) noexcept override;
  [[nodiscard]] boost::asio::io_context::executor_type executor() override { return *http_; }

  /// Between two times that they are woken, for each of them.
  static constexpr Duration kPausePerFollower = std::chrono::microseconds{50};

 private:
  void plan_wake();
  void wake();

  using Waits = std::unordered_map<WaitId, std::function<void()>>;

  EventRing ring_;
  std::optional<boost::asio::io_context::executor_type> http_;
  MonoTime not_before_{};  // when they may be woken again
  bool wake_planned_ = false;
  WaitId last_wait_ = 0;
  Waits waiting_;
  Waits woken_;  // being called
  Counter resyncs_;
};

}  // namespace pulsewheel
