// keepalive_peers: what a keepalive costs a server's processor, of three servers in turns: one that
// does nothing but echo, pulsewheeld, and mosquitto (MQTT's PINGREQ), if it is installed.
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "proto/frame.h"
#include "tests/bench/bare_epoll_server.h"
#include "tests/bench/keepalive_load.h"
#include "tests/integration/daemon.h"
#include "tests/support/child_process.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::bench {
namespace {

struct Options {
  std::size_t clients = 500;
  std::size_t rounds = 7;
  std::chrono::milliseconds turn{2'000};
};

/// With two processors or more the server has one for itself, and the clients have another.
void move_to_processor(std::size_t wanted) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ::sched_setaffinity(0, sizeof(one), &one);
}
void move_server_to_its_processor() {
  move_to_processor(0);
}

/// A listener on a free port of 127.0.0.1, and the port.
std::pair<int, std::uint16_t> listen_on_free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  return {fd, ntohs(address.sin_port)};
}

/// A running server, and how to talk to it.
class Server {
 public:
  explicit Server(std::string name) : name_(std::move(name)) {}
  virtual ~Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] virtual pid_t pid() const = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual Dialect dialect() const = 0;

  /// Processor time of all its threads so far, user and system.
  [[nodiscard]] std::chrono::nanoseconds processor_time() const {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(pid(), &clock) != 0 || ::clock_gettime(clock, &time) != 0)
      throw std::runtime_error(name_ + " has ended");
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  }

 private:
  std::string name_;
};

std::string keepalive_frame() {
  const auto frame = proto::encode_keepalive(0);
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}

class BareEpollServer : public Server {
 public:
  BareEpollServer() : Server("bare epoll") {
    const auto [listener, port] = listen_on_free_port();
    port_ = port;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      move_server_to_its_processor();
      run_bare_epoll_server(listener);
    }
    ::close(listener);
    if (pid_ < 0) throw std::runtime_error("cannot fork");
  }
  ~BareEpollServer() override {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] pid_t pid() const override { return pid_; }
  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] Dialect dialect() const override {
    const std::string ping = keepalive_frame();
    return {.hello = {}, .ping = ping, .pong_size = ping.size()};
  }

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
};

class Pulsewheeld : public Server {
 public:
  explicit Pulsewheeld(std::size_t clients)
      : Server("pulsewheeld"),
        daemon_({.sets = {"server.shards=1", "presence.tick=1s", "presence.timeout_min=10s",
                          "presence.timeout=10m",
                          "server.max_connections=" + std::to_string(clients + 10)},
                 .in_child = move_server_to_its_processor}) {}

  [[nodiscard]] pid_t pid() const override { return daemon_.pid(); }
  [[nodiscard]] std::uint16_t port() const override { return daemon_.port(); }
  [[nodiscard]] Dialect dialect() const override {
    return {.hello =
                [](std::size_t client) {
                  std::array<std::byte, proto::kLoginFrameSizeMax> frame;
                  const std::string uid = "user-" + std::to_string(client);
                  const std::size_t size = proto::encode_login({.uid = uid}, frame);
                  return std::string(reinterpret_cast<const char*>(frame.data()), size);
                },
            .welcome_size = proto::kLoginAckFrameSize,
            .ping = keepalive_frame(),
            .pong_size = proto::kHeaderSize};
  }

 private:
  test::Daemon daemon_;
};

/// MQTT 3.1.1: a CONNECT with a clean session and without a keepalive of its own (section 3.1), a
/// PINGREQ (3.12) for each PINGRESP (3.13).
class Mosquitto : public Server {
 public:
  /// Where Debian puts it. Null where it is not installed.
  static std::unique_ptr<Mosquitto> find() {
    constexpr const char* kPath = "/usr/sbin/mosquitto";
    if (!std::filesystem::exists(kPath)) return nullptr;
    return std::make_unique<Mosquitto>(kPath);
  }

  explicit Mosquitto(const std::string& path) : Server("mosquitto") {
    const auto [listener, port] = listen_on_free_port();
    ::close(listener);  // and takes it, if nobody else comes in between
    port_ = port;
    const std::string config = folder_ / "mosquitto.conf";
    test::write_file(config, "listener " + std::to_string(port) +
                                 " 127.0.0.1\nallow_anonymous true\npersistence false\n"
                                 "set_tcp_nodelay true\nlog_dest none\nuser root\n");
    process_.emplace(std::vector<std::string>{path, "-c", config}, folder_ / "log",
                     move_server_to_its_processor);
    if (!test::eventually([this] { return !process_->is_running() || answers(); }) ||
        !process_->is_running()) {
      throw std::runtime_error("mosquitto did not start: " + test::read_file(folder_ / "log"));
    }
  }

  [[nodiscard]] pid_t pid() const override { return process_->pid(); }
  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] Dialect dialect() const override {
    constexpr std::size_t kConnackSize = 4;
    using namespace std::string_literals;
    return {.hello =
                [](std::size_t client) {
                  const std::string id = "user-" + std::to_string(client);
                  const std::string rest =
                      "\0\4MQTT\4\2\0\0"s + '\0' + static_cast<char>(id.size()) + id;
                  return '\x10' + std::string(1, static_cast<char>(rest.size())) + rest;
                },
            .welcome_size = kConnackSize,
            .ping = "\xC0\0"s,
            .pong_size = 2};
  }

 private:
  [[nodiscard]] bool answers() const {
    try {
      const KeepaliveLoad one(port_, 1, {});
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  std::uint16_t port_ = 0;
  test::TemporaryFolder folder_;
  std::optional<test::ChildProcess> process_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A server's turns, one a round.
struct Record {
  std::unique_ptr<Server> server;
  std::unique_ptr<KeepaliveLoad> load;
  std::vector<double> cost_us{};  // processor time of the server a keepalive
  std::vector<double> busy{};     // of one processor, 1 is all of it

  void take_turn(std::chrono::milliseconds duration) {
    const auto began = std::chrono::steady_clock::now();
    const auto before = server->processor_time();
    const std::uint64_t pongs = load->run(duration);
    const std::chrono::duration<double, std::micro> spent = server->processor_time() - before;
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - began;
    cost_us.push_back(spent / std::chrono::duration<double, std::micro>{1} /
                      static_cast<double>(pongs));
    busy.push_back(spent / wall);
  }
};

/// Round by round, since a machine's speed changes between rounds.
std::vector<double> ratios(const Record& of, const Record& to) {
  std::vector<double> all;
  for (std::size_t i = 0; i < of.cost_us.size(); ++i)
    all.push_back(of.cost_us[i] / to.cost_us[i]);
  return all;
}

void print(const std::vector<Record>& records) {
  std::printf("%-12s  %12s  %24s  %6s\n", "server", "us/keepalive", "ratio to bare epoll", "busy");
  for (const Record& record : records) {
    const auto all = ratios(record, records.front());
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    std::printf("%-12s  %12.2f  %8.2f (%5.2f to %5.2f)  %5.0f%%\n", record.server->name().c_str(),
                median(record.cost_us), median(all), *low, *high, 100 * median(record.busy));
  }
}

/// One line that changes, on a terminal; else a line each.
void tell_progress(std::size_t round, std::size_t rounds) {
  const bool changes = ::isatty(STDERR_FILENO) != 0;
  const char* const end = changes && round < rounds ? "\r" : "\n";
  std::fprintf(stderr, "round %zu of %zu%s", round, rounds, end);
}

int run(const Options& options) {
  std::vector<std::unique_ptr<Server>> servers;
  servers.push_back(std::make_unique<BareEpollServer>());
  servers.push_back(std::make_unique<Pulsewheeld>(options.clients));
  if (auto mosquitto = Mosquitto::find()) {
    servers.push_back(std::move(mosquitto));
  } else {
    std::puts("mosquitto is not installed (Debian's package mosquitto): left out");
  }
  move_to_processor(1);
  std::vector<Record> records;
  for (auto& server : servers) {
    auto load = std::make_unique<KeepaliveLoad>(server->port(), options.clients, server->dialect());
    records.push_back({std::move(server), std::move(load)});
  }
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (Record& record : records)
      record.take_turn(options.turn);
    tell_progress(round + 1, options.rounds);
  }
  print(records);
  if (records.size() == 3) {
    std::printf("pulsewheeld to mosquitto: %.2f\n", median(ratios(records[1], records[2])));
  }
  return 0;
}

}  // namespace
}  // namespace pulsewheel::bench

int main(int argc, char** argv) {
  using namespace pulsewheel::bench;
  Options options;
  std::size_t turn_ms = 2'000;
  CLI::App app{"What a keepalive costs a server's processor: bare epoll, pulsewheeld, mosquitto"};
  app.add_option("--clients", options.clients, "connections to each server")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "turns of each server")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  app.add_option("--turn-ms", turn_ms, "length of a turn, in milliseconds")
      ->check(CLI::Range(100, 60'000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.turn = std::chrono::milliseconds{turn_ms};
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keepalive_peers: %s\n", error.what());
    return 1;
  }
}
