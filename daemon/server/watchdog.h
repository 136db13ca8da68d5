// Watchdog: a beat that goes out only while every worker turns.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel {

/// Asks each worker, once per interval, to run a task, and feeds when the last one has. A question
/// that is still open is not asked again: a worker that hangs has one task waiting for it, however
/// long it hangs. So nobody is fed later than two intervals before, unless somebody hangs.
///
/// Belongs to the thread of its loop; workers may live on others. They outlive the loop's last
/// handler. No timer runs before start() and after stop().
class Watchdog {
 public:
  /// Has a worker run `task` on its own thread, soon. Does not wait for it.
  using Worker = std::function<void(std::function<void()> task)>;

  /// `feed` is called on the loop's thread; so is `on_late` with the index of each worker that has
  /// not answered for a whole interval, once per interval.
  Watchdog(boost::asio::io_context& io, std::function<void()> feed,
           std::function<void(std::size_t worker)> on_late);

  /// Asks at once, and then each `interval`. Call once.
  void start(Duration interval, std::vector<Worker> workers);
  /// Feeds no more. Idempotent.
  void stop();

 private:
  void beat();
  void ask();
  void on_answer(std::size_t worker);

  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  const std::function<void()> feed_;
  const std::function<void(std::size_t)> on_late_;
  Duration interval_{};
  std::vector<Worker> workers_;
  std::vector<bool> asked_;  // and not answered yet
  bool stopped_ = false;
};

}  // namespace pulsewheel
