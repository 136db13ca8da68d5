// ServiceManager: what the daemon tells systemd, or whoever else has set NOTIFY_SOCKET.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/server/watchdog.h"

namespace pulsewheel {

/// Speaks sd_notify(3). Without NOTIFY_SOCKET nothing is sent, and without WATCHDOG_USEC nobody is
/// woken. Main thread. A message waits while the service manager's queue is full; only the main
/// thread waits with it, which is in no packet's way.
class ServiceManager {
 public:
  /// A line for `systemctl status`: what the daemon does, in figures.
  using Describe = std::function<std::string()>;

  ServiceManager(boost::asio::io_context& io, Describe describe);

  /// Clients are served from now on. Where a watchdog is set, it is fed for as long as every one
  /// of `shards` turns; a status goes with it.
  void ready(std::vector<Watchdog::Worker> shards);

  /// The configuration is being read again, until reloaded(), whatever comes of it.
  void reloading() const;
  void reloaded() const;

  /// The daemon is about to stop, and takes its time: asks for more each kExtendInterval until
  /// finishing(). Idempotent.
  void draining();
  /// The last words. The watchdog is given kFinishLimit, for nobody feeds it any more. Idempotent.
  void finishing();

  /// While draining: how often more time is asked for, and how much. A drain may take ten minutes
  /// where the unit allows one and a half (TimeoutStopSec).
  static constexpr Duration kExtendInterval = std::chrono::seconds{2};
  static constexpr Duration kExtendBy = std::chrono::seconds{15};
  /// What the last files may take to be written.
  static constexpr Duration kFinishLimit = std::chrono::seconds{60};

 private:
  void tell(const std::string& state) const;
  [[nodiscard]] std::string status() const;
  void extend();

  const Describe describe_;
  const std::optional<Duration> watchdog_limit_;
  Watchdog watchdog_;
  boost::asio::steady_timer extend_timer_;
  bool draining_ = false;
  bool finished_ = false;
};

}  // namespace pulsewheel
