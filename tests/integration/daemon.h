// Daemon: the real pulsewheeld as a child process, on free ports, with a state folder of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {

/// How a child ended, and what it said.
struct Ended {
  int exit_code = -1;  // -1: by a signal
  std::string log;
};

/// Runs a program to its end. For command lines that do not serve.
Ended run_program(const std::vector<std::string>& arguments);

/// What still runs is killed with it.
class Daemon {
 public:
  struct Options {
    std::vector<std::string> sets{};       // over those of kQuick
    std::uint64_t descriptor_limit = 0;    // 0: as inherited
    std::string state_dir{};               // empty: one of its own
    std::vector<std::string> arguments{};  // before the sets
    /// Runs in the child before it becomes the daemon: limits, other descriptors, environment.
    /// Should it fail, it ends the child with _exit().
    std::function<void()> in_child{};
    std::string config{};  // text of its file, which then replaces kQuick
    /// A program and its arguments, before the daemon's: it becomes the daemon.
    std::vector<std::string> wrapper{};
  };

  /// Short times, but for those that end a session: a test that is about one of these sets it, and
  /// no other one fails because its machine stood still for a moment.
  static constexpr const char* kQuick[] = {"presence.tick=50ms", "presence.timeout_min=100ms",
                                           "server.max_connections=1000", "drain.window=200ms",
                                           "drain.retry_after=100ms"};

  /// The same for Options::config, without the keys that tests of a reload change.
  static constexpr const char* kQuickConfig =
      "presence.tick = \"50ms\"\n"
      "presence.timeout_min = \"100ms\"\n"
      "server.max_connections = 1000\n";

  Daemon() : Daemon(Options{}) {}
  /// Starts it and waits until it listens. Fails the test (throws) when it ends instead.
  explicit Daemon(Options options);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Starts one that is expected to end by itself, and waits for that.
  static Ended run_to_end(Options options);

  [[nodiscard]] pid_t pid() const { return process_->pid(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint16_t http_port() const { return http_port_; }
  [[nodiscard]] std::string state_dir() const { return state_dir_; }
  [[nodiscard]] std::string log() const { return read_file(folder_ / "log"); }

  /// The edges in a file of the state folder so far.
  [[nodiscard]] std::vector<nlohmann::json> edges(const std::string& file = "events.jsonl") const;
  /// The same, once there are `count` at least; fewer when that takes too long.
  [[nodiscard]] std::vector<nlohmann::json> wait_for_edges(
      std::size_t count, const std::string& file = "events.jsonl") const;

  struct Answer {
    int status = 0;
    std::string body;
  };
  [[nodiscard]] Answer get(const std::string& target) const;
  Answer post(const std::string& target, const std::string& body = {}) const;
  /// One value of /metrics, summed over the series whose line starts with `series`. Throws when
  /// there is none: a misspelt name must not look like a 0.
  [[nodiscard]] double metric(const std::string& series) const;

  /// How the requests above reach the daemon from now on.
  struct HttpAccess {
    std::string fields{};       // of each head: "Authorization: Bearer ...\r\n"
    std::string unix_socket{};  // empty: over TCP
  };
  void set_http_access(HttpAccess access) { http_access_ = std::move(access); }

  void signal(int number) const;
  /// Replaces the file of Options::config and sends HUP. Returns whether the daemon took it.
  bool reload(const std::string& config) const;
  /// Where that file is.
  [[nodiscard]] std::string config_file() const { return folder_ / "pulsewheel.toml"; }
  /// Waits for its end. Exit code, or -1 when a signal ended it.
  int wait();

 private:
  [[nodiscard]] Answer ask(const std::string& method, const std::string& target,
                           const std::string& body = {}) const;
  struct Files {
    std::string state_dir;
    std::string ports;
    std::string config;
  };
  static std::vector<std::string> arguments(const Options& options, const Files& files);

  TemporaryFolder folder_;
  std::string state_dir_;
  std::optional<ChildProcess> process_;
  std::uint16_t port_ = 0;
  std::uint16_t http_port_ = 0;
  HttpAccess http_access_;
};

}  // namespace pulsewheel::test
