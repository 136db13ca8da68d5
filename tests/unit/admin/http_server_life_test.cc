// What the HTTP server does with connections, at its limits, and from its start to its end.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/unit/admin/http_server_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(HttpServerTest, ClientThatDoesNotReadIsClosed) {
  options_.limits.write_timeout = 50ms;
  RawClient client(port(), 4096);
  client.send(get("/large"));
  // The end of the connection reaches us only behind what the kernel has buffered, so ask the
  // server.
  while (server_->counters().connections_accepted.value() == 0 ||
         server_->counters().connections.value() != 0) {
    std::this_thread::yield();
  }
  EXPECT_LT(client.read_to_end().size(), 32u * 1024 * 1024);
}

TEST_F(HttpServerTest, OneConnectionTooManyIsToldSoAndClosed) {
  options_.limits.connections_max = 2;
  RawClient first(port()), second(port());
  EXPECT_EQ(first.ask(get("/echo/1")).body(), "1");
  EXPECT_EQ(second.ask(get("/echo/2")).body(), "2");
  RawClient third(port());
  const auto answer = third.read_answer();
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_EQ(code(answer), "too_many_connections");
  EXPECT_EQ(third.read_to_end(), "");
  EXPECT_EQ(first.ask(get("/echo/still")).body(), "still");
  EXPECT_EQ(server_->counters().connections_refused.value(), 1u);
}

TEST_F(HttpServerTest, ACrowdAtThePortLeavesTheUnixSocketItsPlaces) {
  const test::TemporaryFolder folder;
  options_.limits.connections_max = 1;
  options_.unix_socket = folder / "http";
  RawClient crowd(port());
  EXPECT_EQ(crowd.ask(get("/echo/1")).body(), "1");
  EXPECT_EQ(RawClient(port()).read_answer().result_int(), 503u);
  RawClient by_unix(options_.unix_socket);
  EXPECT_EQ(by_unix.ask(get("/echo/2")).body(), "2");
  EXPECT_EQ(RawClient(options_.unix_socket).read_answer().result_int(), 503u);
}

TEST_F(HttpServerTest, AClosedConnectionMakesRoom) {
  options_.limits.connections_max = 1;
  RawClient first(port());
  first.send("GET /echo/a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(first.read_answer().body(), "a");
  first.finish_sending();
  first.read_to_end();
  while (server_->counters().connections.value() != 0)
    std::this_thread::yield();
  EXPECT_EQ(ask(get("/echo/b")).body(), "b");
}

TEST_F(HttpServerTest, RefusalsAreLimitedToo) {
  options_.limits.connections_max = 0;
  options_.limits.refusals_max = 1;
  RawClient told(port());
  EXPECT_EQ(told.read_answer().result_int(), 503u);
  RawClient not_told(port());  // while the first one has not closed its side
  EXPECT_EQ(not_told.read_to_end(), "");
}

TEST_F(HttpServerTest, TooFewDescriptorsAreWaitedOut) {
  (void)port();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit tight{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  RawClient client(port());  // takes the last one
  client.send(get("/echo/a"));
  while (server_->counters().accept_errors.value() == 0)
    std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(client.read_answer().body(), "a");
  EXPECT_LE(server_->counters().accept_errors.value(), 3u);  // it does not spin
}

TEST_F(HttpServerTest, CountsAnswersByClass) {
  (void)ask(get("/echo/a"));
  (void)ask(get("/nothing"));
  (void)ask(get("/drop"));
  const HttpCounters& counters = server_->counters();
  EXPECT_EQ(counters.answers_2xx.value(), 1u);
  EXPECT_EQ(counters.answers_4xx.value(), 1u);
  EXPECT_EQ(counters.answers_5xx.value(), 1u);
  EXPECT_EQ(counters.connections_accepted.value(), 3u);
}

TEST_F(HttpServerTest, PortInUseIsNamed) {
  options_.port = port();
  HttpServer second(options_, routes());
  try {
    second.start();
    FAIL() << "two servers on one port";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::address_in_use);
    EXPECT_EQ(e.what(), "cannot listen for HTTP on 127.0.0.1:" + std::to_string(options_.port) +
                            ": Address already in use");
  }
}

TEST_F(HttpServerTest, StartsAfterAFailedStart) {
  options_.port = port();
  HttpServer second(options_, routes());
  EXPECT_THROW(second.start(), std::system_error);
  server_->stop();
  second.start();
  EXPECT_EQ(RawClient(second.port()).ask(get("/echo/a")).body(), "a");
}

TEST_F(HttpServerTest, AddressThatIsNoneIsNamed) {
  options_.address = "localhost";
  try {
    HttpServer server(options_, routes());
    FAIL() << "a name is no address";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("'localhost'"));
    EXPECT_THAT(e.what(), HasSubstr("127.0.0.1"));
  }
}

TEST_F(HttpServerTest, AddressOfAnotherHostIsNamed) {
  options_.address = "192.0.2.1";
  HttpServer server(options_, routes());
  try {
    server.start();
    FAIL() << "192.0.2.1 is set aside for documents";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("192.0.2.1:0"));
  }
}

TEST_F(HttpServerTest, ListensOnIpv6) {
  options_.address = "::1";
  server_ = std::make_unique<HttpServer>(options_, routes());
  try {
    server_->start();
  } catch (const std::system_error& e) {
    GTEST_SKIP() << "no IPv6 here: " << e.what();
  }
  EXPECT_NE(server_->port(), 0);
}

TEST_F(HttpServerTest, StopEndsOpenConnectionsAndPendingRequests) {
  RawClient idle(port()), asking(port());
  EXPECT_EQ(idle.ask(get("/echo/a")).body(), "a");
  asking.send(get("/never"));
  server_->stop();
  server_->stop();
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(asking.read_to_end(), "");
  EXPECT_THROW(RawClient client(server_->port()), std::runtime_error);
}

TEST_F(HttpServerTest, DescriptorsOfTheLoopExistBeforeTheStart) {
  const auto count = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  server_ = std::make_unique<HttpServer>(options_, routes());
  const auto made = count();
  server_->start();
  EXPECT_EQ(count(), made + 1);  // the listener
}

TEST_F(HttpServerTest, ThreadHasItsName) {
  (void)ask(get("/echo/a"));
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::getline(std::ifstream(task.path() / "comm"), names.emplace_back());
  }
  EXPECT_THAT(names, testing::Contains("pw-http"));
}

TEST_F(HttpServerTest, NoDescriptorPassesToAChild) {
  RawClient client(port());
  EXPECT_EQ(client.ask(get("/echo/a")).body(), "a");
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ec;
    const std::string target = std::filesystem::read_symlink(entry.path(), ec).string();
    if (!target.starts_with("socket:")) continue;
    const int fd = std::stoi(entry.path().filename().string());
    ++sockets;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
  EXPECT_GE(sockets, 3);
}

}  // namespace
}  // namespace pulsewheel
