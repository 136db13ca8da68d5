// NotifySocket: stands in for systemd, at the other end of NOTIFY_SOCKET.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

class NotifySocket {
 public:
  /// One datagram: KEY=VALUE by key.
  using Message = std::map<std::string, std::string>;

  NotifySocket();
  ~NotifySocket();
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  /// For NOTIFY_SOCKET.
  [[nodiscard]] std::string path() const { return folder_ / "notify"; }

  /// The next message; nullopt when none comes within `limit`.
  [[nodiscard]] std::optional<Message> next(std::chrono::milliseconds limit = kLimit) const;
  /// The next one that has `key`, those before it left out; throws when none comes.
  [[nodiscard]] Message expect(const std::string& key) const;

  /// Only a daemon that says nothing reaches it.
  static constexpr std::chrono::milliseconds kLimit{20'000};

 private:
  TemporaryFolder folder_;
  int fd_ = -1;
};

}  // namespace pulsewheel::test
