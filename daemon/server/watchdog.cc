#include "daemon/server/watchdog.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace pulsewheel {

Watchdog::Watchdog(boost::asio::io_context& io, std::function<void()> feed,
                   std::function<void(std::size_t)> on_late)
    : io_(io), timer_(io), feed_(std::move(feed)), on_late_(std::move(on_late)) {}

void Watchdog::start(Duration interval, std::vector<Worker> workers) {
  interval_ = interval;
  workers_ = std::move(workers);
  asked_.assign(workers_.size(), false);
  beat();
}

void Watchdog::stop() {
  stopped_ = true;
  timer_.cancel();
}

void Watchdog::beat() {
  ask();
  timer_.expires_after(interval_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !stopped_) beat();
  });
}

void Watchdog::ask() {
  if (std::find(asked_.begin(), asked_.end(), true) != asked_.end()) {
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (asked_[i]) on_late_(i);
    }
    return;
  }
  asked_.assign(workers_.size(), true);
  for (std::size_t i = 0; i < workers_.size(); ++i)
    workers_[i]([this, i] { boost::asio::post(io_, [this, i] { on_answer(i); }); });
}

void Watchdog::on_answer(std::size_t worker) {
  asked_[worker] = false;
  const bool all = std::find(asked_.begin(), asked_.end(), true) == asked_.end();
  if (all && !stopped_) feed_();
}

}  // namespace pulsewheel
