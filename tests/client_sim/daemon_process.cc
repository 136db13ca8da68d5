#include "tests/client_sim/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/http_request.h"
#include "tests/client_sim/options.h"
#include "tests/client_sim/program.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Duration kPollPause = 10ms;
constexpr std::size_t kLastWordsMax = 2'000;  // bytes of the daemon's output in a message

/// Room beside the clients' connections for those that are on their way out while the client
/// already comes back.
std::uint64_t max_connections_for(std::uint64_t connections) {
  return connections + connections / 50 + 64;
}

/// "0" where there is none yet: any free one.
std::string port_of(const std::string& host_port) {
  return host_port.empty() ? "0" : host_port.substr(host_port.rfind(':') + 1);
}

/// A number or a truth value as it is, anything else as a string.
std::string as_toml(const std::string& value) {
  const bool is_number =
      !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  return is_number || value == "true" || value == "false" ? value : '"' + value + '"';
}

std::vector<std::string> arguments(const DaemonProcess::Setup& setup, const fs::path& folder,
                                   const std::string& port, const std::string& http_port) {
  std::vector<std::string> out{setup.program, "--config", folder / "pulsewheel.toml"};
  const auto set = [&out](const std::string& key_value) {
    out.emplace_back("--set");
    out.push_back(key_value);
  };
  set("listener.0.port=" + port);
  set("http.port=" + http_port);
  set("server.ports_file=" + (folder / "ports.json").string());
  set("server.state_dir=" + folder.string());
  set("server.max_connections=" + std::to_string(max_connections_for(setup.connections)));
  for (const std::string& user_set : setup.sets)
    set(user_set);
  return out;
}

/// Between fork() and exec(): nothing here allocates.
[[noreturn]] void become_daemon(char* const* argv, int output, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setpgid(0, 0);  // Ctrl-C is for the simulator, which stops its daemon in its own time
  if (::getppid() != parent) ::_exit(kExitSystem);  // it died before prctl()
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execv(argv[0], argv);
  static constexpr char kMessage[] = "cannot be executed\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  ::_exit(127);
}

/// An address as the ports file has it, to connect to: a wildcard becomes the loopback.
std::string host_port(const nlohmann::json& listener) {
  std::string host = listener.at("address").get<std::string>();
  if (host == "*" || host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return host + ":" + std::to_string(listener.at("port").get<unsigned>());
}

}  // namespace

DaemonProcess::DaemonProcess(const Setup& setup) : setup_(setup) {
  make_folder();
  const auto edges = value_of(setup.sets, "events.path");
  edge_files_.push_back(edges ? *edges : (folder_ / "events.jsonl").string());
  const auto offline = value_of(setup.sets, "events.offline_path");
  if (offline && !offline->empty()) edge_files_.push_back(*offline);
  try {
    start();
    wait_until_listening();
    read_ports();
  } catch (...) {
    stop();
    std::error_code ignored;
    if (!setup_.keep_folder) fs::remove_all(folder_, ignored);
    throw;
  }
}

DaemonProcess::~DaemonProcess() {
  stop();
  std::error_code ignored;
  if (!setup_.keep_folder) fs::remove_all(folder_, ignored);
}

void DaemonProcess::make_folder() {
  std::string name = fs::temp_directory_path() / "pulsewheel-sim-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  folder_ = name;
  // An empty file: the configuration of the machine must not decide a measurement.
  std::ofstream(folder_ / "pulsewheel.toml");
}

std::string DaemonProcess::reload(const std::string& key, const std::string& value) {
  reloaded_[key] = value;
  std::ofstream file(folder_ / "pulsewheel.toml");
  for (const auto& [name, text] : reloaded_)
    file << name << " = " << as_toml(text) << '\n';
  file.close();
  if (!file) return "cannot write " + (folder_ / "pulsewheel.toml").string();
  const auto answer = http_request(http_, "POST", "/v1/reload");
  if (!answer) return "the daemon does not answer at " + http_;
  return answer->status == 200 ? "" : answer->body;
}

void DaemonProcess::start() {
  const std::vector<std::string> texts =
      arguments(setup_, folder_, port_of(target_), port_of(http_));
  std::vector<char*> argv;
  for (const std::string& text : texts)
    argv.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  const fs::path log = folder_ / "daemon.log";
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (output < 0) throw std::system_error(errno, std::generic_category(), log.string());
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become_daemon(argv.data(), output, parent);
  const int failure = errno;
  ::close(output);
  if (pid_ < 0) throw std::system_error(failure, std::generic_category(), "fork");
  ended_ = false;
}

void DaemonProcess::kill() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  static_cast<void>(reap(/*block=*/true));
}

void DaemonProcess::start_again() {
  fs::remove(folder_ / "ports.json");  // a daemon that was killed leaves it
  start();
  wait_until_listening();
}

void DaemonProcess::wait_until_listening() {
  const MonoTime limit = MonoClock::now() + kStartLimit;
  while (!fs::exists(folder_ / "ports.json")) {
    std::string why;
    if (!running(why)) throw Unavailable("the daemon " + why + last_words());
    if (MonoClock::now() > limit) {
      throw Unavailable("the daemon did not listen within " + std::to_string(kStartLimit.count()) +
                        " s" + last_words());
    }
    std::this_thread::sleep_for(kPollPause);
  }
}

void DaemonProcess::read_ports() {
  std::ifstream file(folder_ / "ports.json");
  try {
    const auto ports = nlohmann::json::parse(file);
    target_ = host_port(ports.at("listeners").at(0));
    if (ports.contains("http") && ports["http"].is_object()) http_ = host_port(ports["http"]);
  } catch (const nlohmann::json::exception& error) {
    throw Unavailable("the daemon's ports file is not understood: " + std::string(error.what()));
  }
}

bool DaemonProcess::reap(bool block) {
  if (ended_) return true;
  pid_t reaped;
  do {
    reaped = ::waitpid(pid_, &status_, block ? 0 : WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  ended_ = reaped != 0;
  return ended_;
}

bool DaemonProcess::running(std::string& why) {
  if (!reap(/*block=*/false)) return true;
  why = WIFSIGNALED(status_) ? "was killed by signal " + std::to_string(WTERMSIG(status_))
                             : "exited with status " + std::to_string(WEXITSTATUS(status_));
  return false;
}

std::string DaemonProcess::stop() {
  if (ended_) return {};
  ::kill(pid_, SIGTERM);
  const MonoTime limit = MonoClock::now() + kStopLimit;
  while (!reap(/*block=*/false)) {
    if (MonoClock::now() > limit) {
      ::kill(pid_, SIGKILL);
      static_cast<void>(reap(/*block=*/true));
      return "the daemon did not stop within " + std::to_string(kStopLimit.count()) + " s";
    }
    std::this_thread::sleep_for(kPollPause);
  }
  std::string why;
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return {};
  static_cast<void>(running(why));
  return "the daemon " + why + last_words();
}

std::string DaemonProcess::last_words() const {
  std::ifstream file(folder_ / "daemon.log");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() > kLastWordsMax) text.erase(0, text.size() - kLastWordsMax);
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text.empty() ? text : "; it said:\n" + text;
}

std::string default_daemon_program() {
  std::error_code failure;
  const fs::path self = fs::read_symlink("/proc/self/exe", failure);
  return failure ? "pulsewheeld" : (self.parent_path() / "pulsewheeld").string();
}

}  // namespace pulsewheel::sim
