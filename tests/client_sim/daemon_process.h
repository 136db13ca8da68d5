// DaemonProcess: a daemon of the simulator's own, on free ports, with a temporary state folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel::sim {

/// Main thread only. The child dies with the thread that started it, also when that is killed.
class DaemonProcess {
 public:
  struct Setup {
    std::string program;
    std::uint32_t connections = 0;  // that it will have to take
    std::vector<std::string> sets;  // the user's; they override this class's
    bool keep_folder = false;
  };

  /// Starts the daemon and waits until it listens. Throws Unavailable with the daemon's last words
  /// when it exits, or does not listen within kStartLimit.
  explicit DaemonProcess(const Setup& setup);
  /// stop(), and the temporary folder is removed.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& target() const noexcept { return target_; }  // HOST:PORT
  [[nodiscard]] const std::string& http() const noexcept { return http_; }  // "" without HTTP port
  [[nodiscard]] const std::vector<std::string>& edge_files() const noexcept { return edge_files_; }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }

  /// Whether it still runs; when not, `why` says how it ended.
  [[nodiscard]] bool running(std::string& why);

  /// SIGKILL.
  void kill();
  /// Starts the daemon anew behind its end, on the same ports and with the same folder, and waits
  /// until it listens. Throws as the constructor does.
  void start_again();

  /// Sets a key in the daemon's file, beside those that were set before, and has it reloaded over
  /// HTTP. Returns what the daemon has against it, else an empty string.
  [[nodiscard]] std::string reload(const std::string& key, const std::string& value);

  /// SIGTERM, and SIGKILL after kStopLimit. Returns a sentence when the daemon did not end with
  /// status 0 by itself, else an empty string. Idempotent.
  std::string stop();

  static constexpr std::chrono::seconds kStartLimit{15};
  static constexpr std::chrono::seconds kStopLimit{20};

 private:
  void make_folder();
  void start();
  void wait_until_listening();
  void read_ports();
  [[nodiscard]] bool reap(bool block);
  [[nodiscard]] std::string last_words() const;

  const Setup setup_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> reloaded_;  // by key
  std::vector<std::string> edge_files_;
  std::string target_;
  std::string http_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = true;
};

/// The daemon's program when --spawn names none: pulsewheeld beside this program.
[[nodiscard]] std::string default_daemon_program();

}  // namespace pulsewheel::sim
