#include "daemon/server/event_feed.h"

#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

std::string_view why_lost(EventRing::Place place) {
  switch (place) {
    case EventRing::Place::kTooOld:
      return "too_old";
    case EventRing::Place::kOtherEpoch:
      return "other_epoch";
    case EventRing::Place::kAhead:
      return "ahead";
    case EventRing::Place::kNewest:
    case EventRing::Place::kInside:
      break;
  }
  return {};
}

}  // namespace

EventFeed::EventFeed(const EventRing::Options& options) : ring_(options) {}

void EventFeed::attach(boost::asio::io_context::executor_type http) {
  PULSEWHEEL_CHECK(!http_);
  http_ = http;
  ring_.set_on_news([this] { boost::asio::post(*http_, [this] { plan_wake(); }); });
}

EventSource::After EventFeed::after(EventCursor cursor, std::string_view uid) {
  EventRing::Events events = ring_.after(cursor, uid);
  if (events.place == EventRing::Place::kNewest) return Nothing{};
  if (events.place == EventRing::Place::kInside) {
    const std::string_view sse = std::string_view(events.text->sse).substr(events.begin);
    return Text{std::move(events.text), sse, events.last};
  }
  resyncs_.add();
  return Lost{why_lost(events.place), ring_.newest()};
}

EventSource::WaitId EventFeed::wait(EventCursor cursor, std::function<void()> on_news) {
  const WaitId id = ++last_wait_;
  waiting_.emplace(id, std::move(on_news));
  if (!ring_.arm(cursor)) plan_wake();
  return id;
}

void EventFeed::stop_waiting(WaitId wait) noexcept {
  waiting_.erase(wait);
  woken_.erase(wait);
}

void EventFeed::plan_wake() {
  if (std::exchange(wake_planned_, true)) return;
  // At once, if that has passed. Kept by its own wait: it must not outlive the loop, as we do.
  const auto pause = std::make_shared<boost::asio::steady_timer>(*http_, not_before_);
  pause->async_wait([this, pause](const boost::system::error_code&) { wake(); });
}

void EventFeed::wake() {
  wake_planned_ = false;
  not_before_ = MonoClock::now() + kPausePerFollower * waiting_.size();
  // Whoever is called waits again, or ends another one's wait.
  woken_ = std::exchange(waiting_, {});
  while (!woken_.empty()) {
    const auto node = woken_.extract(woken_.begin());
    node.mapped()();
  }
}

}  // namespace pulsewheel
