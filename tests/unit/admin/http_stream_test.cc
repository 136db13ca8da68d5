// Answers that go on: how the HTTP port sends them, and whom it cuts off.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>

#include "daemon/admin/http_server.h"
#include "tests/support/eventually.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using testing::HasSubstr;

/// A stream that sends what the test gives it. Its owner may go before it.
class FedStream final : public BodyStream {
 public:
  explicit FedStream(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~FedStream() override { --alive_; }

  Piece next(std::function<void()> on_ready) override {
    if (bytes_.empty() && !endless_) {
      on_ready_ = std::move(on_ready);
      return {};
    }
    const auto owner = std::make_shared<const std::string>(endless_ ? std::string(64 * 1024, 'x')
                                                                    : std::exchange(bytes_, {}));
    return {owner, *owner};
  }
  Piece heartbeat() override { return {nullptr, "beat"}; }

  /// On the HTTP thread.
  void feed(std::string bytes) {
    bytes_ += bytes;
    if (const auto ready = std::exchange(on_ready_, nullptr)) ready();
  }
  void make_endless() {
    endless_ = true;
    feed({});
  }

 private:
  std::atomic<int>& alive_;
  std::string bytes_;
  bool endless_ = false;
  std::function<void()> on_ready_;
};

class HttpStreamTest : public testing::Test {
 protected:
  HttpStreamTest() { options_.port = 0; }

  // First call starts the server: set options_ before it.
  HttpServer& server() {
    if (server_) return *server_;
    Router router;
    router.add(http::verb::get, "/stream", [this](const Request&, Responder respond) {
      Response response;
      response.content_type = "text/plain";
      const auto stream = std::make_shared<FedStream>(alive_);
      streams_.push_back(stream);
      response.stream = stream;
      respond(std::move(response));
    });
    router.add(http::verb::get, "/page", [](const Request&, Responder respond) {
      respond(json_response(nlohmann::json::object()));
    });
    server_ = std::make_unique<HttpServer>(options_, std::move(router));
    server_->start();
    return *server_;
  }
  std::uint16_t port() { return server().port(); }

  /// Runs `act` with every stream, on the HTTP thread.
  void with_streams(std::function<void(FedStream&)> act) {
    boost::asio::post(server().executor(), [this, act = std::move(act)] {
      for (const auto& weak : streams_) {
        if (const auto stream = weak.lock()) act(*stream);
      }
    });
  }
  void feed(std::string bytes) {
    with_streams([bytes = std::move(bytes)](FedStream& stream) { stream.feed(bytes); });
  }
  /// A client that follows, having read the head.
  std::unique_ptr<RawClient> follower(int receive_buffer_bytes = 0) {
    auto client = std::make_unique<RawClient>(port(), receive_buffer_bytes);
    client->send(get("/stream"));
    EXPECT_THAT(read_head(*client), HasSubstr("200 OK"));
    return client;
  }
  static std::string read_head(RawClient& client) {
    std::string head;
    while (!head.ends_with("\r\n\r\n"))
      head += client.read_exactly(1);
    return head;
  }
  std::int64_t open_streams() { return server().counters().streams.value(); }

  HttpServer::Options options_;
  std::atomic<int> alive_ = 0;
  std::vector<std::weak_ptr<FedStream>> streams_;  // the HTTP thread's
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpStreamTest, SendsPiecesAsTheyCome) {
  const auto client = follower();
  feed("one");
  EXPECT_EQ(client->read_exactly(3), "one");
  feed("two");
  feed("three");
  EXPECT_EQ(client->read_exactly(8), "twothree");
}

TEST_F(HttpStreamTest, HasNoLengthAndEndsWithTheConnection) {
  RawClient client(port());
  client.send(get("/stream"));
  const std::string head = read_head(client);
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(head, testing::Not(HasSubstr("Content-Length")));
  EXPECT_THAT(head, testing::Not(HasSubstr("Transfer-Encoding")));
  feed("last");
  EXPECT_EQ(client.read_exactly(4), "last");
  server().stop();
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpStreamTest, HeadIsTheFieldsAlone) {
  RawClient client(port());
  client.send("HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const RawClient::Answer answer = client.read_answer(true);
  EXPECT_EQ(answer[http::field::content_type], "text/plain");
  EXPECT_EQ(answer.count(http::field::content_length), 0U);
  EXPECT_EQ(client.ask(get("/page")).result_int(), 200U);
  EXPECT_EQ(open_streams(), 0);
}

TEST_F(HttpStreamTest, BeatsWhileThereIsNothingToSay) {
  options_.limits.heartbeat_interval = 20ms;
  const auto client = follower();
  EXPECT_EQ(client->read_exactly(8), "beatbeat");
  feed("news");
  std::string text;
  while (!text.ends_with("news"))
    text += client->read_exactly(1);
  EXPECT_EQ(client->read_exactly(4), "beat");
}

TEST_F(HttpStreamTest, NoticesThatTheClientLeaves) {
  auto client = follower();
  ASSERT_TRUE(eventually([&] { return alive_ == 1; }));
  client.reset();
  EXPECT_TRUE(eventually([&] { return alive_ == 0; }));
  EXPECT_EQ(open_streams(), 0);
}

TEST_F(HttpStreamTest, CutsAClientThatDoesNotReadAndOnlyThat) {
  options_.limits.stream_write_timeout = 1s;  // in which the other one comes to read
  const auto stuck = follower(4096);
  const auto reader = follower();
  with_streams([](FedStream& stream) { stream.make_endless(); });
  std::atomic<bool> done = false;
  std::size_t read = 0;
  std::thread reading([&] {
    while (!done)
      read += reader->read_exactly(1024).size();
  });
  EXPECT_TRUE(eventually([&] { return open_streams() == 1; }));
  done = true;
  reading.join();
  EXPECT_GT(read, 0U);
  EXPECT_EQ(server().counters().streams_stuck.value(), 1U);
}

TEST_F(HttpStreamTest, AClientThatDoesNotReadHoldsLittle) {
  options_.limits.stream_write_timeout = 100ms;
  const auto stuck = follower(4096);
  with_streams([](FedStream& stream) { stream.make_endless(); });
  ASSERT_TRUE(eventually([&] { return server().counters().streams_stuck.value() == 1; }));
  // What the kernels of both sides have taken.
  EXPECT_LT(stuck->read_to_end().size(), 300U * 1024);
}

TEST_F(HttpStreamTest, StreamsDoNotCountAsConnections) {
  options_.limits.connections_max = 1;
  std::vector<std::unique_ptr<RawClient>> followers;
  for (std::int64_t i = 1; i <= 5; ++i) {
    followers.push_back(follower());
    ASSERT_TRUE(eventually([&] { return open_streams() == i; }));
  }
  EXPECT_EQ(RawClient(port()).ask(get("/page")).result_int(), 200U);
}

TEST_F(HttpStreamTest, OneStreamTooManyIsToldSoAndMayAskOn) {
  options_.limits.streams_max = 1;
  auto first = follower();
  RawClient second(port());
  const auto answer = second.ask(get("/stream"));
  EXPECT_EQ(answer.result_int(), 503U);
  EXPECT_THAT(answer.body(), HasSubstr("too_many_streams"));
  EXPECT_EQ(second.ask(get("/page")).result_int(), 200U);
  EXPECT_EQ(server().counters().streams_refused.value(), 1U);
  first.reset();
  ASSERT_TRUE(eventually([&] { return open_streams() == 0; }));
  second.send(get("/stream"));
  EXPECT_THAT(read_head(second), HasSubstr("200 OK"));
}

TEST_F(HttpStreamTest, WhatAFollowerSendsIsReadAndForgotten) {
  const auto client = follower();
  client->send(get("/page") + get("/stream"));
  feed("on it goes");
  EXPECT_EQ(client->read_exactly(10), "on it goes");
}

TEST_F(HttpStreamTest, AFollowerThatSendsWithoutEndIsCut) {
  const auto client = follower();
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000; ++i)
          client->send(std::string(64 * 1024, 'x'));
      },
      std::runtime_error);
}

TEST_F(HttpStreamTest, StopEndsStreams) {
  const auto client = follower();
  server().stop();
  EXPECT_EQ(client->read_to_end(), "");
  server_.reset();
  EXPECT_EQ(alive_, 0);
}

}  // namespace
}  // namespace pulsewheel
