// The routes of the HTTP API, served by a server of the test's own from a source that it fills.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "daemon/admin/http_server.h"
#include "daemon/admin/routes.h"
#include "tests/unit/admin/fake_source.h"
#include "tests/unit/admin/raw_client.h"

namespace pulsewheel {

class RoutesFixture : public testing::Test {
 protected:
  /// The first call starts the server.
  RawClient::Answer send(std::string_view request) {
    if (!server_) {
      HttpServer::Options options;
      options.port = 0;
      server_ = std::make_unique<HttpServer>(options, make_routes(source_));
      server_->start();
    }
    return RawClient(server_->port()).ask(request);
  }

  FakeSource source_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace pulsewheel
