// Listening sockets that somebody else has opened, and may keep.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/private_network.h"

namespace pulsewheel::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kFirstPassed = 3;

/// A socket that this process holds, as systemd does for its socket units.
class HeldSocket {
 public:
  explicit HeldSocket(int domain = AF_INET, int type = SOCK_STREAM)
      : fd_(::socket(domain, type | SOCK_CLOEXEC, 0)) {}
  ~HeldSocket() { close(); }
  HeldSocket(HeldSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HeldSocket& operator=(HeldSocket&&) = delete;

  /// Bound to loopback.
  HeldSocket& bind(std::uint16_t port = 0, bool reuse_port = false) {
    const int on = reuse_port ? 1 : 0;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot bind");
    }
    return *this;
  }
  HeldSocket& listen() {
    ::listen(fd_, SOMAXCONN);
    return *this;
  }
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  [[nodiscard]] int get() const { return fd_; }
  /// As /proc shows it.
  [[nodiscard]] std::string link() const {
    struct stat status {};
    ::fstat(fd_, &status);
    return "socket:[" + std::to_string(status.st_ino) + "]";
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

HeldSocket listening() {
  HeldSocket socket;
  socket.bind().listen();
  return socket;
}

/// Runs in the child: the descriptors get the numbers from kFirstPassed on, and the environment
/// says so.
void pass(const std::vector<int>& descriptors) {
  const int above = kFirstPassed + static_cast<int>(descriptors.size());
  std::vector<int> copies;
  for (const int fd : descriptors)
    copies.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, above));
  for (std::size_t i = 0; i < copies.size(); ++i)
    ::dup2(copies[i], kFirstPassed + static_cast<int>(i));
  ::setenv("LISTEN_FDS", std::to_string(descriptors.size()).c_str(), 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
}

Daemon::Options passing(std::vector<int> descriptors, std::vector<std::string> sets = {}) {
  Daemon::Options options;
  options.sets = std::move(sets);
  options.sets.emplace_back("presence.timeout=30s");
  options.in_child = [descriptors = std::move(descriptors)] { pass(descriptors); };
  return options;
}

/// How many descriptors of the daemon, in all its tables, are the socket. Threads that share a
/// table count once: those of the shards' own tables, and main for all the others.
std::size_t copies_of(const HeldSocket& socket, const Daemon& daemon, bool table_per_shard) {
  namespace fs = std::filesystem;
  std::size_t copies = 0;
  for (const auto& task :
       fs::directory_iterator("/proc/" + std::to_string(daemon.pid()) + "/task")) {
    const std::string thread = read_file(task.path() / "comm");
    const bool main = task.path().filename() == std::to_string(daemon.pid());
    if (!main && !(table_per_shard && thread.starts_with("pw-shard-"))) continue;
    for (const auto& entry : fs::directory_iterator(task.path() / "fd")) {
      std::error_code gone;
      if (fs::read_symlink(entry.path(), gone) == socket.link()) ++copies;
    }
  }
  return copies;
}

/// Its log has a thread of its own.
bool will_log(const Daemon& daemon, const std::string& text) {
  return eventually([&] { return daemon.log().find(text) != std::string::npos; });
}

std::string status_of(const Daemon& daemon, const std::string& key) {
  return nlohmann::json::parse(daemon.get("/v1/status").body).at(key).dump();
}

TEST(PassedSocketsTest, OneSocketServesAllShards) {
  const HeldSocket socket = listening();
  const Daemon daemon(passing({socket.get()}, {"server.shards=2"}));
  EXPECT_EQ(daemon.port(), socket.port());
  for (int i = 0; i < 8; ++i) {
    Client client(socket.port());
    EXPECT_GT(client.login("user-" + std::to_string(i)).timeout_ms, 0U);
  }
  EXPECT_TRUE(will_log(daemon, "one socket, shared by all shards")) << daemon.log();
}

TEST(PassedSocketsTest, ReusePortSocketsMakeAShardEach) {
  Daemon::Options options;
  options.wrapper = {"python3", "-B", PULSEWHEEL_PASS_SOCKETS, "3", "127.0.0.1", "0"};
  const Daemon daemon(std::move(options));
  EXPECT_EQ(status_of(daemon, "shards"), "3");
  EXPECT_TRUE(will_log(daemon, "one socket for each shard")) << daemon.log();
  // The kernel spreads these over all three sockets, and each is answered.
  std::vector<Client> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(daemon.port());
    EXPECT_GT(clients.back().login("user-" + std::to_string(i)).timeout_ms, 0U);
  }
}

class PassedSocketsTablesTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static bool per_shard() { return std::string(GetParam()) == "per-shard"; }

  const std::vector<std::string> sets_{"server.shards=2",
                                       std::string("server.fd_tables=") + GetParam()};
};

#ifdef __SANITIZE_THREAD__
constexpr const char* kTables[] = {"shared"};  // it keys descriptors by number
#else
constexpr const char* kTables[] = {"shared", "per-shard"};
#endif
INSTANTIATE_TEST_SUITE_P(Tables, PassedSocketsTablesTest, ::testing::ValuesIn(kTables),
                         [](const auto& test) {
                           return std::string(test.param) == "shared" ? "Shared" : "PerShard";
                         });

TEST_P(PassedSocketsTablesTest, WhoConnectsWhileNoDaemonRunsIsServedByTheNext) {
  const HeldSocket socket = listening();
  for (int run = 0; run < 3; ++run) {
    Client early(socket.port());
    early.send_login("alice");
    Daemon daemon(passing({socket.get()}, sets_));
    static_cast<void>(early.expect(proto::FrameType::kLoginAck));
    early.close();
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
}

TEST_P(PassedSocketsTablesTest, WhoConnectsDuringADrainWaitsForTheNext) {
  const HeldSocket socket = listening();
  auto sets = sets_;
  sets.emplace_back("drain.window=60s");
  Daemon first(passing({socket.get()}, sets));
  std::vector<Client> leaving;
  for (int i = 0; i < 4; ++i) {
    leaving.emplace_back(socket.port());
    leaving.back().login("user-" + std::to_string(i));
  }
  first.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return copies_of(socket, first, per_shard()) == 0; }));
  Client late(socket.port());
  late.send_login("alice");
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 0);
  const Daemon second(passing({socket.get()}, sets_));
  static_cast<void>(late.expect(proto::FrameType::kLoginAck));
}

TEST_P(PassedSocketsTablesTest, EachShardHoldsOneCopyAndNobodyElseAny) {
  const HeldSocket socket = listening();
  const Daemon daemon(passing({socket.get()}, sets_));
  EXPECT_EQ(copies_of(socket, daemon, per_shard()), 2U);
}

TEST_P(PassedSocketsTablesTest, WhereNobodyElseHoldsItADrainEndsTheListener) {
  HeldSocket socket = listening();
  auto sets = sets_;
  sets.emplace_back("drain.window=60s");
  Daemon daemon(passing({socket.get()}, sets));
  std::vector<Client> leaving;
  for (int i = 0; i < 4; ++i) {
    leaving.emplace_back(daemon.port());
    leaving.back().login("user-" + std::to_string(i));
  }
  socket.close();
  daemon.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] {
    try {
      const Client refused(daemon.port());
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
}

TEST(PassedSocketsTest, ASocketUnitsProgramStartsTheDaemonForItsFirstClient) {
  const PrivateNetwork network;  // of its own, so the port is free
  if (!network.missing().empty()) GTEST_SKIP() << network.missing();
  if (std::system("command -v systemd-socket-activate > /dev/null") != 0) {
    GTEST_SKIP() << "systemd-socket-activate is missing (package systemd)";
  }
  constexpr std::uint16_t kPort = 7600;
  proto::FrameType answer{};
  std::thread first_client([&] {
    std::optional<Client> client;
    if (!eventually([&] {
          try {
            client.emplace(kPort);
          } catch (const std::runtime_error&) {
          }
          return client.has_value();
        })) {
      return;
    }
    client->send_login("alice");
    answer = client->read_frame().value().type;
  });
  Daemon::Options options;
  options.wrapper = {"systemd-socket-activate", "-l", "127.0.0.1:7600"};
  const Daemon daemon(std::move(options));
  first_client.join();
  EXPECT_EQ(answer, proto::FrameType::kLoginAck);
  EXPECT_EQ(daemon.port(), kPort);
}

// --- What is refused ----------------------------------------------------------------------------

Ended run_with(std::vector<int> descriptors, std::vector<std::string> sets = {}) {
  return Daemon::run_to_end(passing(std::move(descriptors), std::move(sets)));
}

constexpr int kConfigExit = 78;

TEST(PassedSocketsTest, ASocketOfAnotherKindIsRefusedByName) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const HeldSocket udp = std::move(HeldSocket(AF_INET, SOCK_DGRAM).bind());
  const HeldSocket local(AF_UNIX);
  const HeldSocket idle = std::move(HeldSocket().bind());
  const struct {
    int descriptor;
    const char* fault;
  } kCases[] = {{ends[0], "is no socket"},
                {udp.get(), "is no TCP socket"},
                {local.get(), "is a Unix socket"},
                {idle.get(), "does not listen"}};
  for (const auto& [descriptor, fault] : kCases) {
    const Ended ended = run_with({descriptor});
    EXPECT_EQ(ended.exit_code, kConfigExit) << fault;
    EXPECT_THAT(ended.log, AllOf(HasSubstr("passed descriptor 3"), HasSubstr(fault),
                                 HasSubstr("ListenStream=")));
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(PassedSocketsTest, ASocketForHttpIsNotTakenForOneOfClients) {
  const HeldSocket socket = listening();
  Daemon::Options options;
  options.in_child = [fd = socket.get()] {
    pass({fd});
    ::setenv("LISTEN_FDNAMES", "http", 1);
  };
  const Ended ended = Daemon::run_to_end(std::move(options));
  EXPECT_EQ(ended.exit_code, kConfigExit);
  EXPECT_THAT(ended.log, HasSubstr("http.unix_socket"));
}

TEST(PassedSocketsTest, AnotherNumberOfSocketsThanShardsIsRefused) {
  std::vector<HeldSocket> sockets;
  sockets.push_back(std::move(HeldSocket().bind(0, true).listen()));
  for (int i = 1; i < 3; ++i)
    sockets.push_back(std::move(HeldSocket().bind(sockets[0].port(), true).listen()));
  const Ended ended =
      run_with({sockets[0].get(), sockets[1].get(), sockets[2].get()}, {"server.shards=2"});
  EXPECT_EQ(ended.exit_code, kConfigExit);
  EXPECT_THAT(ended.log, AllOf(HasSubstr("3 sockets were passed"), HasSubstr("2 shards"),
                               HasSubstr("a single one for all of them")));
}

TEST(PassedSocketsTest, AnAnnouncedDescriptorThatIsNotThereIsRefused) {
  Daemon::Options options;
  options.in_child = [] {
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::close(kFirstPassed);
  };
  const Ended ended = Daemon::run_to_end(std::move(options));
  EXPECT_EQ(ended.exit_code, kConfigExit);
  EXPECT_THAT(ended.log, HasSubstr("LISTEN_FDS"));
}

TEST(PassedSocketsTest, SocketsOfAnotherProcessAreLeftAlone) {
  const HeldSocket socket = listening();
  Daemon::Options options = passing({socket.get()});
  options.in_child = [fd = socket.get()] {
    pass({fd});
    ::setenv("LISTEN_PID", std::to_string(::getppid()).c_str(), 1);
  };
  const Daemon daemon(std::move(options));
  EXPECT_NE(daemon.port(), socket.port());
}

}  // namespace
}  // namespace pulsewheel::test
