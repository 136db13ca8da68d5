// HttpReply: the callback of one HTTP request that waits for shards, with its time limit.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/admin/http_server.h"
#include "daemon/base/time.h"

namespace pulsewheel {

/// Kept alive by whoever may still answer, and by its own timer. HTTP thread, but for post().
template <class Report>
class HttpReply {
 public:
  using Callback = std::function<void(std::optional<Report>)>;

  /// `done` gets nullopt after `limit`, unless it was called before. `http` outlives the reply.
  static std::shared_ptr<HttpReply> start(HttpServer& http, Duration limit, Callback done) {
    auto reply = std::make_shared<HttpReply>(http, limit, std::move(done));
    reply->limit_.async_wait([reply](const boost::system::error_code& error) {
      if (!error) reply->finish(std::nullopt);
    });
    return reply;
  }

  HttpReply(HttpServer& http, Duration limit, Callback done)
      : http_(http), done_(std::move(done)), limit_(http.executor(), limit) {}

  /// The callback has been called already: whatever is still found out is for nobody.
  [[nodiscard]] bool over() const noexcept { return !done_; }

  /// Calls back, unless that has been done.
  void finish(std::optional<Report> report) {
    limit_.cancel();
    if (auto done = std::exchange(done_, nullptr)) done(std::move(report));
  }

  /// Makes the report, or nullopt, on the HTTP thread and hands it over, unless the time is up. Any
  /// thread.
  template <class MakeReport>
  static void post(const std::shared_ptr<HttpReply>& reply, MakeReport make_report) {
    boost::asio::post(reply->http_.executor(), [reply, make_report = std::move(make_report)] {
      if (!reply->over()) reply->finish(make_report());
    });
  }

 private:
  HttpServer& http_;
  Callback done_;  // empty once called
  boost::asio::steady_timer limit_;
};

}  // namespace pulsewheel
