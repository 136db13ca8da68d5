// What the HTTP server's tests share: a server whose routes behave as handlers may.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/admin/http_server.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {

inline Response text_response(std::string body) {
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
    return nlohmann::json::parse(answer.body()).at("error").at("code").get<std::string>();
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
      respond(text_response(request.param("word")));
    });
    router.add(http::verb::post, "/size", [](const Request& request, Responder respond) {
      respond(text_response(std::to_string(request.body.size())));
    });
    router.add(http::verb::get, "/later/{word}", [this](const Request& request, Responder respond) {
      boost::asio::post(server_->executor(),
                        [word = request.param("word"), respond] { respond(text_response(word)); });
    });
    router.add(http::verb::get, "/elsewhere/{word}",
               [this](const Request& request, Responder respond) {
                 // The thread has the last copy: where "drop" is asked for, it drops that too.
                 threads_.emplace_back([word = request.param("word"), last = std::move(respond)] {
                   if (word != "drop") last(text_response(word));
                 });
               });
    router.add(http::verb::get, "/never",
               [this](const Request&, Responder respond) { kept_.push_back(std::move(respond)); });
    router.add(http::verb::get, "/field", [](const Request& request, Responder respond) {
      respond(text_response(std::string(request.field("x-word"))));
    });
    router.add(http::verb::get, "/patient",
               [this](const Request&, Responder respond) { kept_.push_back(std::move(respond)); },
               {.answer_timeout = std::chrono::milliseconds{60}});
    router.add(http::verb::get, "/drop", [](const Request&, Responder) {});
    router.add(http::verb::get, "/throw",
               [](const Request&, Responder) { throw std::runtime_error("handler broke"); });
    router.add(http::verb::get, "/large", [](const Request&, Responder respond) {
      respond(text_response(std::string(32 * 1024 * 1024, 'x')));
    });
    return router;
  }

  HttpServer::Options options_;
  // The HTTP thread's until the server has stopped.
  std::vector<Responder> kept_;
  std::vector<std::jthread> threads_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace pulsewheel
