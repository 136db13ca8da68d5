#include "daemon/server/service_manager.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include "daemon/base/log.h"

namespace pulsewheel {
namespace {

using std::chrono::microseconds;

/// How long the watchdog waits to be fed; nullopt: there is none for this process.
std::optional<Duration> watchdog_limit() {
  std::uint64_t limit_us = 0;
  if (::sd_watchdog_enabled(0, &limit_us) <= 0) return std::nullopt;
  return microseconds(limit_us);
}

std::string in_microseconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<microseconds>(duration).count());
}

}  // namespace

ServiceManager::ServiceManager(boost::asio::io_context& io, Describe describe)
    : describe_(std::move(describe)),
      watchdog_limit_(watchdog_limit()),
      watchdog_(
          io, [this] { tell("WATCHDOG=1\n" + status()); },
          [](std::size_t shard) {
            log::error("watchdog", "shard {} does not turn: the watchdog is not fed", shard);
          }),
      extend_timer_(io) {}

void ServiceManager::ready(std::vector<Watchdog::Worker> shards) {
  tell("READY=1\n" + status());
  // Half of what is allowed, as sd_watchdog_enabled(3) advises.
  if (watchdog_limit_) watchdog_.start(*watchdog_limit_ / 2, std::move(shards));
}

void ServiceManager::reloading() const {
  // The time tells this reload from one that was announced before it.
  tell("RELOADING=1\nMONOTONIC_USEC=" + in_microseconds(MonoClock::now().time_since_epoch()));
}

void ServiceManager::reloaded() const {
  tell("READY=1\n" + status());
}

void ServiceManager::draining() {
  if (std::exchange(draining_, true) || finished_) return;
  tell("STOPPING=1");
  extend();
}

void ServiceManager::extend() {
  tell("EXTEND_TIMEOUT_USEC=" + in_microseconds(kExtendBy) + "\n" + status());
  extend_timer_.expires_after(kExtendInterval);
  extend_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !finished_) extend();
  });
}

void ServiceManager::finishing() {
  if (std::exchange(finished_, true)) return;
  watchdog_.stop();
  extend_timer_.cancel();
  const std::string limit = in_microseconds(kFinishLimit);
  std::string state = "STOPPING=1\nEXTEND_TIMEOUT_USEC=" + limit;
  if (watchdog_limit_) state += "\nWATCHDOG_USEC=" + limit + "\nWATCHDOG=1";
  tell(state + "\nSTATUS=stopping");
}

std::string ServiceManager::status() const {
  return "STATUS=" + describe_();
}

void ServiceManager::tell(const std::string& state) const {
  if (const int result = ::sd_notify(0, state.c_str()); result < 0) {
    log::warn("notify", "cannot tell the service manager: {}",
              std::generic_category().message(-result));
  }
}

}  // namespace pulsewheel
