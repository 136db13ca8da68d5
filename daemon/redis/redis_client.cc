#include "daemon/redis/redis_client.h"

#include <utility>

#include <boost/system/error_code.hpp>

#include "daemon/base/check.h"
#include "daemon/base/log.h"

namespace pulsewheel {

namespace asio = boost::asio;
RedisClient::RedisClient(asio::io_context& io, Options options)
    : io_(io),
      options_(std::move(options)),
      name_(options_.connection.url.display()),
      resolver_(io, options_.connection.url.host),
      backoff_(options_.backoff, options_.seed),
      retry_timer_(io) {}

RedisClient::~RedisClient() {
  stop();
}

void RedisClient::start() {
  if (state() != State::kStopped) return;
  connect();
}

void RedisClient::stop() {
  set_state(State::kStopped);
  retry_timer_.cancel();
  if (const auto connection = std::exchange(connection_, nullptr)) connection->abandon();
}

void RedisClient::retry_now() {
  if (state() != State::kWaiting) return;
  retry_timer_.cancel();
  connect();
}

void RedisClient::connect() {
  set_state(State::kConnecting);
  connection_ = std::make_shared<RedisConnection>(
      io_, options_.connection, resolver_, counters_,
      RedisConnection::Events{[this] { on_ready(); },
                              [this](const RedisDown& down) { on_closed(down); }});
  connection_->start(attempt_++);
}

void RedisClient::on_ready() {
  set_state(State::kReady);
  counters_.connections.add();
  ready_since_ = MonoClock::now();
  log::info("redis", "connected to {}", name_);
  if (options_.on_ready) options_.on_ready();
}

void RedisClient::on_closed(const RedisDown& down) {
  // A callback of a command may have stopped the client.
  if (state() == State::kStopped) return;
  connection_ = nullptr;
  counters_.of(down.reason).add();
  if (down.was_ready && MonoClock::now() - ready_since_ >= options_.stable_after) backoff_.reset();
  const auto delay = down.is_slow ? backoff_.next_slow() : backoff_.next();
  const RedisErrcFacts& facts = facts_of(down.reason);
  log::warn(facts.kind, {{"server", name_}, {"retry_ms", delay.count()}}, "{}{}{}", facts.text,
            down.detail.empty() ? "" : ": ", down.detail);
  wait(delay);
  if (options_.on_down) options_.on_down(down);
}

void RedisClient::wait(std::chrono::milliseconds delay) {
  set_state(State::kWaiting);
  retry_timer_.expires_after(delay);
  // Cancelled too late, it may run after stop(), after another wait has begun, or when the client
  // is gone.
  retry_timer_.async_wait(
      [this, alive = std::weak_ptr<const bool>(alive_)](boost::system::error_code ec) {
        if (ec || alive.expired() || state() != State::kWaiting) return;
        if (retry_timer_.expiry() <= MonoClock::now()) connect();
      });
}

void RedisClient::set_state(State state) noexcept {
  state_.store(state, std::memory_order_relaxed);
  counters_.up.set(state == State::kReady ? 1 : 0);
}

std::error_code RedisClient::submit(RedisArgs args, RedisCallback callback) {
  PULSEWHEEL_CHECK(!args.empty());
  return connection_ ? connection_->submit(args, std::move(callback)) : refuse();
}

std::error_code RedisClient::submit(std::initializer_list<std::string_view> args,
                                    RedisCallback callback) {
  return submit(RedisArgs(args.begin(), args.size()), std::move(callback));
}

std::error_code RedisClient::eval(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                  RedisCallback callback) {
  return connection_ ? connection_->eval(script, keys, args, std::move(callback)) : refuse();
}

std::error_code RedisClient::eval_in_turn(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                          RedisCallback callback) {
  return connection_ ? connection_->eval_in_turn(script, keys, args, std::move(callback))
                     : refuse();
}

std::error_code RedisClient::refuse() noexcept {
  counters_.of(RedisErrc::kNotConnected).add();
  return RedisErrc::kNotConnected;
}

std::string_view to_string(RedisClient::State state) noexcept {
  switch (state) {
    case RedisClient::State::kStopped:
      return "stopped";
    case RedisClient::State::kConnecting:
      return "connecting";
    case RedisClient::State::kReady:
      return "ready";
    case RedisClient::State::kWaiting:
      return "waiting";
  }
  return "unknown";
}

}  // namespace pulsewheel
