#include "daemon/net/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <functional>
#include <list>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/net/fake_shard.h"
#include "tests/unit/proto/bytes.h"

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
  void on_accept_paused(int error, Duration pause) noexcept override {
    errors.push_back(error);
    pauses.push_back(pause);
  }
  std::uint32_t retry_after_ms() noexcept override { return kRetryAfterMs; }
  bool leaves_to_others() noexcept override { return is_full; }

  static constexpr std::uint32_t kRetryAfterMs = 2'345;

  bool has_no_memory = false;
  bool is_full = false;  // and another shard is not
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
    acceptor_.listen(256);
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

/// This process' descriptor that listens on `port`.
int listener_of(std::uint16_t port) {
  for (int fd = 0; fd < 1'024; ++fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t listens_size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0 && listens != 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        ntohs(address.sin_port) == port) {
      return fd;
    }
  }
  throw std::runtime_error("nobody listens");
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

/// Two acceptors with one queue, that of a socket which neither has opened.
class SharedQueueTest : public AcceptorTest {
 protected:
  SharedQueueTest() {
    for (Acceptor* acceptor : {&first_, &second_}) {
      acceptor->adopt(listener_of(acceptor_.port()), true);
      acceptor->listen(256);
      acceptor->start();
    }
  }

  Sink first_sink_, second_sink_;
  Acceptor first_{io_, kBurst, first_sink_, counters_};
  Acceptor second_{io_, kBurst, second_sink_, counters_};
};

TEST_F(SharedQueueTest, WhoIsFirstTakesAConnection) {
  connect(2 * kBurst);
  run_until([&] { return first_sink_.sockets.size() + second_sink_.sockets.size() == 2 * kBurst; });
}

TEST_F(SharedQueueTest, WhoIsFullLeavesItToTheOthersWithoutAnError) {
  first_sink_.is_full = true;
  connect(2 * kBurst);
  run_until([&] { return second_sink_.sockets.size() == 2 * kBurst; });
  EXPECT_TRUE(first_sink_.sockets.empty());
  EXPECT_TRUE(first_sink_.errors.empty());
}

TEST_F(SharedQueueTest, WhoWasFullTakesConnectionsAgain) {
  first_sink_.is_full = second_sink_.is_full = true;
  connect(1);
  run_until([&] { return first_.accept_burst() && second_.accept_burst(); });
  first_sink_.is_full = false;
  run_until([&] { return first_sink_.sockets.size() == 1; });
}

TEST_F(SharedQueueTest, TheEndOfOneIsNoneForTheOther) {
  first_.close();
  connect(1);
  run_until([&] { return second_sink_.sockets.size() == 1; });
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
  /// Those in use can be given back and taken again.
  NoDescriptorLeft() : NoDescriptorLeft(first_free()) {}
  /// Only those below `limit` can.
  explicit NoDescriptorLeft(rlim_t limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lowered{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  static rlim_t first_free() {
    const int next = dup(STDIN_FILENO);
    close(next);
    return static_cast<rlim_t>(next);
  }

  rlimit before_{};
};

constexpr std::size_t kTurnedAwayMax = kBurst * Acceptor::kTurnedAwayBursts;

TEST_F(AcceptorTest, OutOfDescriptorsItPausesTwiceAsLongEachTimeAndThenResumes) {
  acceptor_.start();
  connect(2 * kTurnedAwayMax + 1);
  {
    const NoDescriptorLeft none;
    run_until([&] { return sink_.pauses.size() == 3; });
    EXPECT_TRUE(sink_.sockets.empty());
  }
  EXPECT_EQ(sink_.errors, (std::vector{EMFILE, EMFILE, EMFILE}));
  EXPECT_EQ(sink_.pauses, (std::vector<Duration>{100ms, 200ms, 400ms}));
  EXPECT_EQ(count_of(counters_, "EMFILE"), 3U);
  EXPECT_EQ(counters_.turned_away.value(), 2 * kTurnedAwayMax + 1);
  connect(1);
  run_until([&] { return sink_.sockets.size() == 1; });
}

/// All that comes from the acceptor, up to a FIN; throws where it is a reset.
std::string read_to_fin(tcp::socket& client) {
  std::array<std::byte, 64> bytes;
  boost::system::error_code error;
  const std::size_t size = boost::asio::read(client, boost::asio::buffer(bytes), error);
  if (error != boost::asio::error::eof) throw boost::system::system_error(error);
  return proto::to_hex(std::span(bytes).first(size));
}

TEST_F(AcceptorTest, OutOfDescriptorsItTellsThoseWhoWaitToComeBackLater) {
  connect(2);
  boost::asio::write(clients_.back(), boost::asio::buffer("a LOGIN that nobody reads"));
  {
    const NoDescriptorLeft none;
    EXPECT_TRUE(acceptor_.accept_burst());
  }
  for (tcp::socket& client : clients_)
    EXPECT_EQ(read_to_fin(client), "c2 00 00 06 00 01 00 00 09 29");
  EXPECT_EQ(counters_.turned_away.value(), 2U);
}

TEST_F(AcceptorTest, SpareIsTakenBackForTheNextShortage) {
  acceptor_.start();
  for (std::uint64_t shortage = 1; shortage <= 3; ++shortage) {
    connect(1);
    const NoDescriptorLeft none;
    run_until([&] { return sink_.pauses.size() == shortage; });
    EXPECT_EQ(counters_.turned_away.value(), shortage);
  }
}

TEST_F(AcceptorTest, WithoutASpareThoseWhoWaitStayInTheQueueUntilThereIsRoom) {
  acceptor_.start();
  connect(2);
  {
    const NoDescriptorLeft none(0);  // the spare's place is of no use
    run_until([&] { return sink_.pauses.size() == 2; });
  }
  EXPECT_EQ(counters_.turned_away.value(), 0U);
  run_until([&] { return sink_.sockets.size() == 2; });
  connect(1);
  const NoDescriptorLeft none;
  run_until([&] { return counters_.turned_away.value() == 1; });
}

TEST_F(AcceptorTest, PausedOneDoesNotTry) {
  connect(kTurnedAwayMax + 1);
  const NoDescriptorLeft none;
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.pauses.size(), 1U);
}

TEST_F(AcceptorTest, PausesKeepTheLoopIdle) {
  acceptor_.start();
  connect(3 * kTurnedAwayMax);
  const NoDescriptorLeft none;
  const std::size_t handlers = run_until([&] { return sink_.pauses.size() == 3; });
  EXPECT_LE(handlers, 5U);  // the first try, and two for each pause: its end, and the next try
}

TEST_F(AcceptorTest, PauseIsShortAgainAfterAConnection) {
  connect(kTurnedAwayMax + 1);
  {
    const NoDescriptorLeft none;
    acceptor_.accept_burst();
    run_until([&] { return sink_.pauses.size() == 2; });
  }
  connect(1);
  run_until([&] { return sink_.sockets.size() == 1; });
  connect(1);
  {
    const NoDescriptorLeft none;
    run_until([&] { return sink_.pauses.size() == 3; });
  }
  EXPECT_EQ(sink_.pauses, (std::vector<Duration>{100ms, 200ms, 100ms}));
}

// --- Out of memory ------------------------------------------------------------------------------

TEST_F(AcceptorTest, WithoutMemoryForASessionItTurnsConnectionsAwayAndPauses) {
  acceptor_.start();
  connect(2);
  sink_.has_no_memory = true;
  run_until([&] { return sink_.pauses.size() == 1; });
  EXPECT_EQ(sink_.errors, std::vector{ENOMEM});
  EXPECT_EQ(count_of(counters_, "ENOMEM"), 1U);
  EXPECT_EQ(read_to_fin(clients_.front()), "");
  EXPECT_EQ(read_to_fin(clients_.back()), "c2 00 00 06 00 01 00 00 09 29");
  sink_.has_no_memory = false;
  connect(1);
  run_until([&] { return sink_.sockets.size() == 1; });
}

// With ever more allocations that succeed, until none fails: whatever does, accepting goes on.
TEST_F(AcceptorTest, FailedAllocationDelaysConnectionsAndStopsNothing) {
  acceptor_.start();
  std::uint64_t successes = 0;
  for (bool has_failed = true; has_failed; ++successes) {
    SCOPED_TRACE(successes);
    const std::size_t accepted = sink_.sockets.size();
    const std::size_t pauses = sink_.pauses.size();
    sink_.errors.reserve(sink_.errors.size() + 1);
    sink_.pauses.reserve(sink_.pauses.size() + 1);
    const std::function<bool()> has_ended = [&] {
      return sink_.sockets.size() > accepted || sink_.pauses.size() > pauses;
    };
    connect(1);
    {
      const support::FailingAllocations short_of_memory(successes);
      run_until(has_ended);
      has_failed = sink_.pauses.size() > pauses;
    }
    connect(1);
    run_until([&] { return sink_.sockets.size() > accepted; });
  }
  EXPECT_GT(successes, 1U);
}

TEST_F(AcceptorTest, WaitingAndPausingTakeNothingFromTheHeap) {
  acceptor_.start();
  io_.poll();
  sink_.errors.reserve(3);
  sink_.pauses.reserve(3);
  connect(1);
  const NoDescriptorLeft none(0);
  run_until([&] { return sink_.pauses.size() == 1; });  // the loop's first timer
  const std::uint64_t before = support::allocations();
  run_until([&] { return sink_.pauses.size() == 3; });
  EXPECT_EQ(support::allocations(), before);
}

// --- Other troubles -----------------------------------------------------------------------------

TEST_F(AcceptorTest, ConnectionThatWasResetInTheQueueIsNoTrouble) {
  connect(2);
  clients_.front().set_option(boost::asio::socket_base::linger(true, 0));
  clients_.front().close();
  EXPECT_TRUE(acceptor_.accept_burst());
  EXPECT_EQ(sink_.sockets.size(), 2U);
  EXPECT_TRUE(sink_.pauses.empty());
  for (const auto& entry : counters_.errors)
    EXPECT_EQ(entry.count.value(), 0U) << entry.name;
}

TEST_F(AcceptorTest, BrokenListenerIsTriedOncePerPause) {
  acceptor_.start();
  shutdown(listener_of(acceptor_.port()), SHUT_RD);
  const std::size_t handlers = run_until([&] { return sink_.pauses.size() == 3; });
  EXPECT_LE(handlers, 6U);
  EXPECT_EQ(sink_.errors, (std::vector{EINVAL, EINVAL, EINVAL}));
  EXPECT_EQ(count_of(counters_, "other"), 3U);
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
