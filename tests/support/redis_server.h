// RedisServer: a real redis-server of a test's own, on free ports and in a folder that goes away.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/redis/redis_reply.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

struct redisContext;  // hiredis'

namespace pulsewheel::test {

/// Listens on 127.0.0.1 and on a socket in its folder. Its port stays its own while it is down.
/// What still runs is killed with it.
class RedisServer {
 public:
  struct Options {
    /// More words for its command line, as in {"--maxmemory", "1mb"}.
    std::vector<std::string> arguments{};
    /// Also serves TLS, on tls_port(); `arguments` name the certificates.
    bool tls = false;
    /// A node of a cluster of its own, without slots.
    bool cluster = false;
    /// Survives kill() and stop() with its data.
    bool keeps_data = false;
  };

  RedisServer() : RedisServer(Options{}) {}
  /// Starts it. Throws, with its log, when it does not answer a PING.
  explicit RedisServer(Options options);
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  /// Starts it again, where it was.
  void start();
  /// SIGTERM, and waits for its end.
  void stop() { end(SIGTERM); }
  /// SIGKILL, and waits for its end.
  void kill() { end(SIGKILL); }
  /// SIGSTOP and SIGCONT.
  void freeze() const;
  void thaw() const;

  [[nodiscard]] std::uint16_t port() const { return port_.number; }
  [[nodiscard]] std::uint16_t tls_port() const { return tls_port_.number; }
  [[nodiscard]] std::string socket_path() const { return folder_ / "redis.sock"; }
  [[nodiscard]] std::string folder() const { return folder_.path(); }
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port()); }
  [[nodiscard]] std::string unix_url() const { return "unix://" + socket_path(); }
  [[nodiscard]] std::string log() const { return read_file(folder_ / "log"); }

  /// One command over a connection of its own, as a user who may do everything.
  RedisReply command(const std::vector<std::string>& words) const;

 private:
  /// A port that is bound and not listened on: nobody else is given it, and a server that asks for
  /// it by number gets it.
  struct ReservedPort {
    ReservedPort();
    ~ReservedPort();
    ReservedPort(const ReservedPort&) = delete;
    ReservedPort& operator=(const ReservedPort&) = delete;

    int descriptor;
    std::uint16_t number;
  };

  [[nodiscard]] std::vector<std::string> command_line() const;
  void end(int signal);

  const Options options_;
  TemporaryFolder folder_;
  ReservedPort port_;
  ReservedPort tls_port_;
  ReservedPort bus_port_;  // of a cluster
  std::optional<ChildProcess> process_;
};

/// A blocking connection to a RedisServer, as a user who may do everything. Throws
/// std::runtime_error when the connection fails.
class RedisConsole {
 public:
  explicit RedisConsole(const RedisServer& server);
  ~RedisConsole();
  RedisConsole(const RedisConsole&) = delete;
  RedisConsole& operator=(const RedisConsole&) = delete;

  RedisReply command(const std::vector<std::string>& words);
  /// Sends it and does not wait for the answer.
  void send(const std::vector<std::string>& words);

 private:
  void append(const std::vector<std::string>& words);

  struct FreeContext {
    void operator()(redisContext* context) const noexcept;
  };
  std::unique_ptr<redisContext, FreeContext> context_;
};

}  // namespace pulsewheel::test
