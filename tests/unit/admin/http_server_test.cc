#include "daemon/admin/http_server.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "daemon/base/build_info.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;

Response text(std::string body) {
  Response response;
  response.content_type = kTextType;
  response.body = std::move(body);
  return response;
}

// A server with routes that behave in all the ways that handlers can.
class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() { options_.port = 0; }

  // First call starts the server: set options_ before it.
  std::uint16_t port() {
    if (!server_) {
      server_ = std::make_unique<HttpServer>(options_, routes());
      server_->start();
    }
    return server_->port();
  }
  RawClient::Answer ask(std::string_view bytes) { return RawClient(port()).ask(bytes); }

  static std::string code(const RawClient::Answer& answer) {
    EXPECT_EQ(answer[http::field::content_type], "application/json");
    return Json::parse(answer.body()).at("error").at("code").get<std::string>();
  }
  // "408 timeout": status and code of the one answer to `bytes`, after which the server closes.
  std::string refusal_of(std::string_view bytes) {
    RawClient client(port());
    const auto answer = client.ask(bytes);
    EXPECT_EQ(answer[http::field::connection], "close");
    EXPECT_EQ(client.read_to_end(), "");
    return std::to_string(answer.result_int()) + " " + code(answer);
  }

  Router routes() {
    Router router;
    router.add(http::verb::get, "/echo/{word}", [](const Request& request, Responder respond) {
      respond(text(request.param("word")));
    });
    router.add(http::verb::post, "/size", [](const Request& request, Responder respond) {
      respond(text(std::to_string(request.body.size())));
    });
    router.add(http::verb::get, "/later/{word}", [this](const Request& request, Responder respond) {
      boost::asio::post(server_->executor(),
                        [word = request.param("word"), respond] { respond(text(word)); });
    });
    router.add(http::verb::get, "/elsewhere/{word}",
               [this](const Request& request, Responder respond) {
                 // The thread has the last copy: where "drop" is asked for, it drops that too.
                 threads_.emplace_back([word = request.param("word"), last = std::move(respond)] {
                   if (word != "drop") last(text(word));
                 });
               });
    router.add(http::verb::get, "/never",
               [this](const Request&, Responder respond) { kept_.push_back(std::move(respond)); });
    router.add(http::verb::get, "/field", [](const Request& request, Responder respond) {
      respond(text(std::string(request.field("x-word"))));
    });
    router.add(http::verb::get, "/patient",
               [this](const Request&, Responder respond) { kept_.push_back(std::move(respond)); },
               {.answer_timeout = 60ms});
    router.add(http::verb::get, "/drop", [](const Request&, Responder) {});
    router.add(http::verb::get, "/throw",
               [](const Request&, Responder) { throw std::runtime_error("handler broke"); });
    router.add(http::verb::get, "/large", [](const Request&, Responder respond) {
      respond(text(std::string(32 * 1024 * 1024, 'x')));
    });
    return router;
  }

  HttpServer::Options options_;
  // The HTTP thread's until the server has stopped.
  std::vector<Responder> kept_;
  std::vector<std::jthread> threads_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersWithLengthAndWithoutCaching) {
  const auto answer = ask(get("/echo/hello"));
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer.body(), "hello");
  EXPECT_EQ(answer[http::field::content_length], "5");
  EXPECT_EQ(answer[http::field::cache_control], "no-store");
  EXPECT_EQ(answer[http::field::server], "pulsewheel/"s + std::string(build_info().version));
}

TEST_F(HttpServerTest, KeepsTheConnection) {
  RawClient client(port());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(client.ask(get("/echo/again")).body(), "again");
}

TEST_F(HttpServerTest, ClosesWhenTheClientWishes) {
  RawClient client(port());
  client.send("GET /echo/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.body(), "a");
  EXPECT_EQ(answer[http::field::connection], "close");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, SpeaksHttp10WithoutHost) {
  RawClient client(port());
  const auto answer = client.ask("GET /echo/old HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.version(), 10u);
  EXPECT_EQ(answer.body(), "old");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, HeadHasTheFieldsOfGetAndNoBody) {
  RawClient client(port());
  client.send("HEAD /echo/hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto answer = client.read_answer(true);
  EXPECT_EQ(answer[http::field::content_length], "5");
  EXPECT_EQ(client.ask(get("/echo/next")).body(), "next");
}

TEST_F(HttpServerTest, HeadOfAnErrorHasNoBodyEither) {
  RawClient client(port());
  client.send("HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_answer(true).result_int(), 404u);
  EXPECT_EQ(client.ask(get("/echo/next")).body(), "next");
}

TEST_F(HttpServerTest, ErrorsOfTheRouterKeepTheConnection) {
  RawClient client(port());
  EXPECT_EQ(code(client.ask(get("/nothing"))), "not_found");
  EXPECT_EQ(code(client.ask(get("/echo/%"))), "bad_encoding");
  const auto answer = client.ask("DELETE /echo/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(answer.result_int(), 405u);
  EXPECT_EQ(answer[http::field::allow], "GET, HEAD");
  EXPECT_EQ(client.ask(get("/echo/next")).body(), "next");
}

TEST_F(HttpServerTest, ReadsARequestThatComesByteByByte) {
  RawClient client(port());
  for (const char byte :
       "POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"s) {
    client.send({&byte, 1});
  }
  EXPECT_EQ(client.read_answer().body(), "3");
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 200; ++i) {
    all += get((i % 2 == 0 ? "/later/" : "/echo/") + std::to_string(i));
  }
  client.send(all);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(client.read_answer().body(), std::to_string(i));
}

TEST_F(HttpServerTest, AnswersAfterTheClientHalfCloses) {
  RawClient client(port());
  client.send(get("/later/1") + get("/echo/2"));
  client.finish_sending();
  EXPECT_EQ(client.read_answer().body(), "1");
  EXPECT_EQ(client.read_answer().body(), "2");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, HalfARequestIs400) {
  RawClient client(port());
  client.send("GET /echo/a HTTP/1.1\r\nHost: loc");
  client.finish_sending();
  EXPECT_EQ(code(client.read_answer()), "incomplete");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, HalfABodyIs400) {
  RawClient client(port());
  client.send("POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabc");
  client.finish_sending();
  EXPECT_EQ(code(client.read_answer()), "incomplete");
}

TEST_F(HttpServerTest, RefusesWhatIsNoHttp) {
  const std::string requests[] = {
      "\r\n\r\n\r\n"s,
      "hello\r\n\r\n"s,
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"s,
      std::string(64, '\0') + "\r\n\r\n",
      "G(T / HTTP/1.1\r\n\r\n"s,
      "GET  HTTP/1.1\r\n\r\n"s,
      "GET /a\x01 HTTP/1.1\r\n\r\n"s,
      "GET / HTTP/1.1\r\nbad field: x\r\n\r\n"s,
      "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"s,
      "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"s};
  for (const std::string& request : requests) {
    EXPECT_EQ(refusal_of(request), "400 bad_request") << request;
  }
}

TEST_F(HttpServerTest, RefusesOtherVersions) {
  EXPECT_EQ(refusal_of("GET / HTTP/2.0\r\n\r\n"), "505 bad_version");
  EXPECT_EQ(refusal_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "505 bad_version");
}

TEST_F(HttpServerTest, RefusesTargetsThatAreNoPath) {
  for (const char* target : {"*", "http://localhost/echo/a", "echo/a", "/echo/\xff", "/echo/a#b"}) {
    EXPECT_EQ(ask(get(target)).result_int(), 400u) << target;
  }
}

TEST_F(HttpServerTest, WantsExactlyOneHost) {
  EXPECT_EQ(refusal_of("GET /echo/a HTTP/1.1\r\n\r\n"), "400 bad_host");
  EXPECT_EQ(refusal_of("GET /echo/a HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
            "400 bad_host");
}

TEST_F(HttpServerTest, RefusesForeignHostsOnLoopback) {
  EXPECT_EQ(refusal_of("GET /echo/a HTTP/1.1\r\nHost: example.com\r\n\r\n"), "403 foreign_host");
  EXPECT_EQ(ask("GET /echo/a HTTP/1.1\r\nHost: [::1]:7601\r\n\r\n").body(), "a");
}

TEST_F(HttpServerTest, RefusesChangesAskedForByForeignPages) {
  for (const char* origin : {"http://example.com", "http://localhost", "http://localhost:76010",
                             "http://localhost:7601.example.com", "null", "", "localhost:7601"}) {
    EXPECT_EQ(refusal_of(post("/size", "Origin: "s + origin + "\r\n")), "403 foreign_origin")
        << origin;
  }
  EXPECT_EQ(
      refusal_of(post("/size", "Origin: http://localhost:7601\r\nOrigin: http://example.com\r\n")),
      "403 foreign_origin");
}

TEST_F(HttpServerTest, TakesChangesFromItsOwnPagesAndFromPrograms) {
  EXPECT_EQ(ask(post("/size", "Origin: http://localhost:7601\r\n")).body(), "0");
  EXPECT_EQ(ask(post("/size", "Origin: HTTP://LocalHost:7601\r\n")).body(), "0");
  EXPECT_EQ(ask(post("/size")).body(), "0");
}

TEST_F(HttpServerTest, ForeignPagesMayRead) {
  EXPECT_EQ(
      ask("GET /echo/a HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.com\r\n\r\n").body(),
      "a");
}

TEST_F(HttpServerTest, RefusesChangesUnderForeignHostsOnEveryAddress) {
  options_.address = "0.0.0.0";
  EXPECT_EQ(refusal_of("POST /size HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n"),
            "403 foreign_host");
  EXPECT_EQ(ask(post("/size")).body(), "0");
}

TEST_F(HttpServerTest, TakesAnyHostOnOtherAddresses) {
  options_.address = "0.0.0.0";
  EXPECT_EQ(ask("GET /echo/a HTTP/1.1\r\nHost: example.com\r\n\r\n").body(), "a");
}

// A request whose head has exactly `size` bytes.
std::string request_with_head_of(std::size_t size) {
  std::string head = "GET /echo/a HTTP/1.1\r\nHost: localhost\r\nX: ";
  return head + std::string(size - head.size() - 4, 'x') + "\r\n\r\n";
}

TEST_F(HttpServerTest, HeadMayHave8KibAndNoByteMore) {
  EXPECT_EQ(ask(request_with_head_of(8 * 1024)).body(), "a");
  EXPECT_EQ(refusal_of(request_with_head_of(8 * 1024 + 1)), "431 head_too_large");
}

TEST_F(HttpServerTest, RequestLineAndFieldsShareTheLimit) {
  EXPECT_EQ(refusal_of("GET /" + std::string(5'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\nX: " +
                       std::string(5'000, 'a') + "\r\n\r\n"),
            "431 head_too_large");
}

TEST_F(HttpServerTest, EndlessHeadIsRefusedAtTheLimit) {
  EXPECT_EQ(refusal_of("GET /" + std::string(100'000, 'a')), "431 head_too_large");
}

std::string post_of(std::size_t size) {
  return "POST /size HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(size) +
         "\r\n\r\n";
}

TEST_F(HttpServerTest, BodyMayHave64KibAndNoByteMore) {
  EXPECT_EQ(ask(post_of(64 * 1024) + std::string(64 * 1024, 'x')).body(), "65536");
  EXPECT_EQ(refusal_of(post_of(64 * 1024 + 1)), "413 body_too_large");
}

TEST_F(HttpServerTest, OversizeBodyDoesNotHideTheAnswer) {
  EXPECT_EQ(refusal_of(post_of(500'000) + std::string(500'000, 'x')), "413 body_too_large");
}

TEST_F(HttpServerTest, RefusesTransferEncodingWithOrWithoutLength) {
  const std::string start = "POST /size HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_EQ(refusal_of(start + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
            "411 length_required");
  const std::string both[] = {
      start + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\na\r\n0\r\n\r\n",
      start + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"};
  for (const std::string& request : both) {
    EXPECT_THAT(refusal_of(request), testing::AnyOf("411 length_required", "400 bad_request"));
  }
}

TEST_F(HttpServerTest, SaysContinueToThoseWhoAsk) {
  RawClient client(port());
  client.send(
      "POST /size HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read_exactly(25), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("abc").body(), "3");
}

TEST_F(HttpServerTest, SlowHeadIs408) {
  options_.limits.head_timeout = 30ms;
  EXPECT_EQ(refusal_of("GET /echo/a HTTP/1.1\r\nHost:"), "408 timeout");
}

TEST_F(HttpServerTest, BytesInTimeDoNotExtendTheHead) {
  options_.limits.head_timeout = 100ms;
  options_.limits.head_bytes_max = 64 * 1024 * 1024;  // more than can come in that time
  RawClient client(port());
  client.send("GET /echo/a HTTP/1.1\r\nX: ");
  // The server reads on after its answer, for linger_timeout, so this ends by its answer alone.
  std::atomic<bool> answered = false;
  std::thread dripper([&] {
    while (!answered) {
      client.send("x");
      std::this_thread::yield();
    }
  });
  const auto answer = client.read_answer();
  answered = true;
  dripper.join();
  EXPECT_EQ(code(answer), "timeout");
}

TEST_F(HttpServerTest, SlowBodyIs408) {
  options_.limits.body_timeout = 30ms;
  EXPECT_EQ(refusal_of(post_of(5) + "abc"), "408 timeout");
}

TEST_F(HttpServerTest, SilentConnectionIsClosedInSilence) {
  options_.limits.idle_timeout = 30ms;
  RawClient client(port());
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, IdleTimeoutCountsFromTheLastAnswer) {
  options_.limits.idle_timeout = 1s;  // in which the first question has to come, too
  RawClient client(port());
  EXPECT_EQ(client.ask(get("/echo/a")).body(), "a");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpServerTest, HandlerWithoutAnswerInTimeIs503) {
  options_.limits.answer_timeout = 30ms;
  EXPECT_EQ(refusal_of(get("/never")), "503 timeout");
  server_->stop();
  ASSERT_EQ(kept_.size(), 1u);
  kept_[0](text("late"));  // no effect, no crash
}

TEST_F(HttpServerTest, ARouteMayHaveMoreTimeThanTheOthers) {
  options_.limits.answer_timeout = 1ms;
  const auto answer = ask(get("/patient"));
  EXPECT_EQ(answer.result_int(), 503u);
  EXPECT_THAT(answer.body(), HasSubstr("after 60 ms"));
  server_->stop();
}

TEST_F(HttpServerTest, HandlersSeeTheFieldsOfTheHead) {
  EXPECT_EQ(ask("GET /field HTTP/1.1\r\nHost: localhost\r\nX-Word: hello\r\n\r\n").body(), "hello");
  EXPECT_EQ(ask(get("/field")).body(), "");
}

TEST_F(HttpServerTest, AnswersMayComeFromOtherThreads) {
  RawClient client(port());
  for (int i = 0; i < 20; ++i) {
    const std::string word = std::to_string(i);
    EXPECT_EQ(client.ask(get("/elsewhere/" + word)).body(), word);
  }
  EXPECT_EQ(code(client.ask(get("/elsewhere/drop"))), "no_answer");
  server_->stop();
}

TEST_F(HttpServerTest, HandlerThatDropsItsRequestIs500) {
  RawClient client(port());
  EXPECT_EQ(code(client.ask(get("/drop"))), "no_answer");
  EXPECT_EQ(client.ask(get("/echo/next")).body(), "next");
}

TEST_F(HttpServerTest, HandlerThatThrowsIs500) {
  RawClient client(port());
  const auto answer = client.ask(get("/throw"));
  EXPECT_EQ(answer.result_int(), 500u);
  EXPECT_THAT(answer.body(), HasSubstr("handler broke"));
  EXPECT_EQ(client.ask(get("/echo/next")).body(), "next");
}

TEST_F(HttpServerTest, LargeAnswerArrivesWhole) {
  EXPECT_EQ(ask(get("/large")).body().size(), 32u * 1024 * 1024);
}

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
