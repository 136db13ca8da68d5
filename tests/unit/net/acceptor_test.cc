#include "daemon/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <deque>
#include <functional>
#include <list>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/unit/net/fake_shard.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;

constexpr std::size_t kBurst = 3;

class Sink final : public AcceptSink {
 public:
  void on_accepted(ShardSocket&& socket) override {
    if (has_no_memory) throw std::bad_alloc();
    sockets.push_back(std::move(socket));
  }
  void on_accept_paused(int error, Duration pause) override {
    errors.push_back(error);
    pauses.push_back(pause);
  }

  bool has_no_memory = false;
  std::deque<ShardSocket> sockets;
  std::vector<int> errors;
  std::vector<Duration> pauses;
};

std::uint64_t count_of(const AcceptCounters& counters, std::string_view name) {
  for (const auto& entry : counters.errors) {
    if (entry.name == name) return entry.count.value();
  }
  throw std::invalid_argument("no such counter");
}

class AcceptorTest : public testing::Test {
 protected:
  explicit AcceptorTest(const char* address = "127.0.0.1") {
    acceptor_.bind({boost::asio::ip::make_address(address), 0});
    acceptor_.listen(64);
  }

  /// Puts `n` connections into the queue.
  void connect(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      clients_.emplace_back(client_io_)
          .connect({boost::asio::ip::make_address("127.0.0.1"), acceptor_.port()});
    }
  }

  /// Returns how many handlers it took.
  std::size_t run_until(const std::function<bool()>& condition) {
    const MonoTime give_up = MonoClock::now() + kPatience;
    std::size_t handlers = 0;
    while (!condition()) {
      if (MonoClock::now() > give_up) throw std::runtime_error("waited in vain");
      io_.restart();
      handlers += io_.run_one_for(10ms);
    }
    return handlers;
  }

  boost::asio::io_context io_{1};
  boost::asio::io_context client_io_{1};
  Sink sink_;
  AcceptCounters counters_;
  Acceptor acceptor_{io_, kBurst, sink_, counters_};
  std::list<tcp::socket> clients_;
};

TEST_F(AcceptorTest, BurstTakesAtMostItsNumber) {
  connect(2 * kBurst + 1);
  EXPECT_FALSE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), kBurst);
  EXPECT_FALSE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), 2 * kBurst);
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), 2 * kBurst + 1);
}

TEST_F(AcceptorTest, BurstThatTookItsNumberDoesNotClaimThatTheQueueIsEmpty) {
  connect(kBurst);
  EXPECT_FALSE(acceptor_.accept_burst());
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), kBurst);
}

TEST_F(AcceptorTest, EmptyQueueIsReportedAsEmpty) {
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_TRUE(sink_.sockets.empty());
}

TEST_F(AcceptorTest, LoopTakesOneBurstPerHandlerUntilTheQueueIsEmpty) {
  acceptor_.start();
  connect(3 * kBurst + 1);
  std::size_t before = 0;
  run_until([&] {
    EXPECT_LE(sink_.sockets.size(), before + kBurst);
    before = sink_.sockets.size();
    return before == 3 * kBurst + 1;
  });
  connect(1);
  run_until([&] { return sink_.sockets.size() == 3 * kBurst + 2; });
}

TEST_F(AcceptorTest, BurstAsideDoesNotStopTheLoop) {
  acceptor_.start();
  connect(1);
  EXPECT_TRUE(acceptor_.accept_burst());
  connect(1);
  run_until([&] { return sink_.sockets.size() == 2; });
}

TEST_F(AcceptorTest, AcceptedSocketsAreNonBlockingClosedOnExecAndWithoutDelay) {
  connect(1);
  acceptor_.accept_burst();
  ShardSocket& socket = sink_.sockets.at(0);
  EXPECT_NE(fcntl(socket.native_handle(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(socket.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
  tcp::no_delay no_delay;
  socket.get_option(no_delay);
  EXPECT_TRUE(no_delay.value());
  EXPECT_EQ(socket.remote_endpoint(), clients_.front().local_endpoint());
}

int option_of(ShardSocket& socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(getsockopt(socket.native_handle(), level, name, &value, &size), 0);
  return value;
}

class AcceptorTcpTest : public AcceptorTest {
 protected:
  /// A connection of a listener with these options.
  ShardSocket& accept_with(const TcpOptions& tcp) {
    listener_.emplace(io_, kBurst, sink_, counters_);
    listener_->bind({boost::asio::ip::make_address("127.0.0.1"), 0}, tcp);
    listener_->listen(1);
    clients_.emplace_back(client_io_)
        .connect({boost::asio::ip::make_address("127.0.0.1"), listener_->port()});
    listener_->accept_burst();
    return sink_.sockets.at(0);
  }
  std::optional<Acceptor> listener_;
};

TEST_F(AcceptorTcpTest, ConnectionsInheritUserTimeoutAndKeepalive) {
  ShardSocket& socket = accept_with({.user_timeout = 20s, .keepalive_idle = 8s});
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
  EXPECT_EQ(option_of(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE), 8);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPINTVL), 3);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPCNT), TcpOptions::kKeepaliveProbes);
}

TEST_F(AcceptorTcpTest, KeepaliveCanBeOff) {
  ShardSocket& socket = accept_with({.user_timeout = 20s, .keepalive_idle = 0s});
  EXPECT_EQ(option_of(socket, SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
}

TEST_F(AcceptorTcpTest, WithoutAUserTimeoutTheProbesTakeHalfAsLongAgain) {
  ShardSocket& socket = accept_with({.user_timeout = 0s, .keepalive_idle = 80s});
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE), 80);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPINTVL), 10);
}

TEST_F(AcceptorTcpTest, TimesOfLessThanAUnitAreOne) {
  ShardSocket& socket = accept_with({.user_timeout = 1ns, .keepalive_idle = 1ns});
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 1);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPIDLE), 1);
  EXPECT_EQ(option_of(socket, IPPROTO_TCP, TCP_KEEPINTVL), 1);
}

TEST_F(AcceptorTest, SeveralMayShareAPort) {
  AcceptCounters counters;
  Acceptor second(io_, kBurst, sink_, counters);
  EXPECT_NO_THROW(second.bind({boost::asio::ip::make_address("127.0.0.1"), acceptor_.port()}));
  EXPECT_NO_THROW(second.listen(64));
  EXPECT_EQ(second.port(), acceptor_.port());
}

TEST_F(AcceptorTest, PortOfAnotherProgramIsRefused) {
  // Without SO_REUSEPORT, as another program has it.
  tcp::acceptor other(client_io_, {boost::asio::ip::make_address("127.0.0.1"), 0}, false);
  AcceptCounters counters;
  Acceptor second(io_, kBurst, sink_, counters);
  EXPECT_THROW(second.bind(other.local_endpoint()), boost::system::system_error);
}

TEST_F(AcceptorTest, ClosedOneAcceptsNoMoreAndRefusesNewcomers) {
  acceptor_.start();
  connect(1);
  const std::uint16_t port = acceptor_.port();
  acceptor_.close();
  acceptor_.close();
  EXPECT_TRUE(acceptor_.accept_burst());
  io_.poll();
  EXPECT_TRUE(sink_.sockets.empty());
  tcp::socket late(client_io_);
  boost::system::error_code error;
  late.connect({boost::asio::ip::make_address("127.0.0.1"), port}, error);
  EXPECT_EQ(error, boost::asio::error::connection_refused);
}

class AcceptorV6Test : public AcceptorTest {
 protected:
  AcceptorV6Test() : AcceptorTest("::1") {}
};

TEST_F(AcceptorV6Test, TakesV6AndNoV4) {
  clients_.emplace_back(client_io_)
      .connect({boost::asio::ip::make_address("::1"), acceptor_.port()});
  EXPECT_TRUE(acceptor_.accept_burst());
  ASSERT_EQ(sink_.sockets.size(), 1U);
  EXPECT_EQ(sink_.sockets[0].remote_endpoint(), clients_.front().local_endpoint());
  // Nobody has to listen there, and if another program does, that is none of ours.
  boost::system::error_code ignored;
  clients_.emplace_back(client_io_)
      .connect({boost::asio::ip::make_address("127.0.0.1"), acceptor_.port()}, ignored);
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), 1U);
}

// --- Out of descriptors -------------------------------------------------------------------------

/// While it lives, this process cannot open one more descriptor.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(STDIN_FILENO);
    close(next);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
};

TEST_F(AcceptorTest, OutOfDescriptorsItPausesTwiceAsLongEachTimeAndThenResumes) {
  acceptor_.start();
  connect(2);
  {
    const NoDescriptorLeft none;
    run_until([&] { return sink_.pauses.size() == 3; });
    EXPECT_TRUE(sink_.sockets.empty());
  }
  EXPECT_EQ(sink_.errors, (std::vector{EMFILE, EMFILE, EMFILE}));
  EXPECT_EQ(sink_.pauses, (std::vector<Duration>{100ms, 200ms, 400ms}));
  EXPECT_EQ(count_of(counters_, "EMFILE"), 3U);
  run_until([&] { return sink_.sockets.size() == 2; });
}

TEST_F(AcceptorTest, PausedOneDoesNotTry) {
  connect(1);
  const NoDescriptorLeft none;
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.pauses.size(), 1U);
}

TEST_F(AcceptorTest, PausesKeepTheLoopIdle) {
  acceptor_.start();
  connect(1);
  const NoDescriptorLeft none;
  const std::size_t handlers = run_until([&] { return sink_.pauses.size() == 3; });
  EXPECT_LE(handlers, 5U);  // the first try, and two for each pause: its end, and the next try
}

TEST_F(AcceptorTest, PauseIsShortAgainAfterAConnection) {
  connect(1);
  {
    const NoDescriptorLeft none;
    acceptor_.accept_burst();
    run_until([&] { return sink_.pauses.size() == 2; });
  }
  run_until([&] { return sink_.sockets.size() == 1; });
  connect(1);
  {
    const NoDescriptorLeft none;
    run_until([&] { return sink_.pauses.size() == 3; });
  }
  EXPECT_EQ(sink_.pauses, (std::vector<Duration>{100ms, 200ms, 100ms}));
}

TEST_F(AcceptorTest, WithoutMemoryForASessionItClosesTheConnectionAndPauses) {
  acceptor_.start();
  connect(2);
  sink_.has_no_memory = true;
  run_until([&] { return sink_.pauses.size() == 1; });
  EXPECT_EQ(sink_.errors, std::vector{ENOMEM});
  EXPECT_EQ(count_of(counters_, "ENOMEM"), 1U);
  char byte = 0;
  boost::system::error_code error;
  clients_.front().read_some(boost::asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, boost::asio::error::eof);
  sink_.has_no_memory = false;
  run_until([&] { return sink_.sockets.size() == 1; });
}

TEST_F(AcceptorTest, ClosedWhilePausedItDoesNotResume) {
  connect(1);
  {
    const NoDescriptorLeft none;
    acceptor_.accept_burst();
  }
  acceptor_.close();
  io_.restart();
  io_.run();  // ends, for nothing is pending
  EXPECT_TRUE(sink_.sockets.empty());
}

TEST(AcceptCountersTest, ErrorsAreCountedByNameAndUnknownOnesAsOther) {
  AcceptCounters counters;
  counters.add(ENFILE);
  counters.add(ECONNABORTED);
  counters.add(EPROTO);
  counters.add(EPERM);
  EXPECT_EQ(count_of(counters, "ENFILE"), 1U);
  EXPECT_EQ(count_of(counters, "ECONNABORTED"), 1U);
  EXPECT_EQ(count_of(counters, "other"), 2U);
  EXPECT_EQ(count_of(counters, "EMFILE"), 0U);
}

}  // namespace
}  // namespace pulsewheel
