#include "daemon/admin/http_server.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "daemon/base/build_info.h"
#include "tests/unit/admin/http_server_fixture.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;

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
  kept_[0](text_response("late"));  // no effect, no crash
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

}  // namespace
}  // namespace pulsewheel
