// What an operator asks of the node over HTTP, carried out on the main thread.
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/server/server.h"

namespace pulsewheel {
namespace {

/// Without a client a drain is over at once, and the HTTP port with it: so long the answer has to
/// get out.
constexpr std::chrono::milliseconds kAnswerHeadStart{1'000};

}  // namespace

void Server::request_drain(std::function<void(DrainReport)> done) {
  boost::asio::post(io_, [this, done = std::move(done)] {
    using std::chrono::milliseconds;
    done({.connections = status_->totals().connections,
          .window_ms = std::chrono::duration_cast<milliseconds>(config_.drain.window).count()});
    if (draining_ || finished_) return;
    drain_request_.expires_after(kAnswerHeadStart);
    drain_request_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !draining_ && !finished_) begin_drain();
    });
  });
}

void Server::request_reload(std::function<void(std::optional<ReloadReport>)> done) {
  boost::asio::post(io_, [this, done = std::move(done)] {
    if (draining_ || finished_) return done(std::nullopt);
    reload();
    done(reloader_.report());
  });
}

}  // namespace pulsewheel
