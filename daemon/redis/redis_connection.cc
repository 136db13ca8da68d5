#include "daemon/redis/redis_connection.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace pulsewheel {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// Views of `words`, behind one another: a command.
std::vector<std::string_view> join(std::initializer_list<RedisArgs> parts) {
  std::vector<std::string_view> words;
  for (const RedisArgs part : parts)
    words.insert(words.end(), part.begin(), part.end());
  return words;
}

}  // namespace

RedisConnection::RedisConnection(asio::io_context& io, const RedisConnectionOptions& options,
                                 HostResolver& resolver, RedisCounters& counters, Events events)
    : options_(options),
      resolver_(resolver),
      counters_(counters),
      events_(std::move(events)),
      stream_(io),
      deadline_(io),
      reader_(options.reply) {}

void RedisConnection::start(std::size_t attempt) {
  arm_deadline(MonoClock::now() + options_.connect_timeout);
  const RedisUrl& url = options_.url;
  if (url.transport == RedisUrl::Transport::kUnix) {
    return do_connect({asio::local::stream_protocol::endpoint(url.path)});
  }
  error_code ec;
  const auto address = asio::ip::make_address(url.host, ec);
  if (!ec) return do_connect({Tcp::endpoint(address, url.port)});
  do_resolve(attempt);
}

void RedisConnection::do_resolve(std::size_t attempt) {
  phase_ = Phase::kResolving;
  resolver_.resolve([self = shared_from_this(), attempt](const HostAddresses& found) {
    self->on_resolved(attempt, found);
  });
}

void RedisConnection::on_resolved(std::size_t attempt, const HostAddresses& found) {
  if (found.addresses.empty()) {
    return close({.reason = RedisErrc::kUnreachable, .detail = found.error});
  }
  Endpoints endpoints;
  for (const asio::ip::address& address : found.addresses)
    endpoints.emplace_back(Tcp::endpoint(address, options_.url.port));
  std::rotate(endpoints.begin(),
              endpoints.begin() + static_cast<std::ptrdiff_t>(attempt % endpoints.size()),
              endpoints.end());
  do_connect(std::move(endpoints));
}

void RedisConnection::do_connect(Endpoints endpoints) {
  phase_ = Phase::kConnecting;
  // The sequence has to live as long as the operation.
  const auto sequence = std::make_shared<const Endpoints>(std::move(endpoints));
  asio::async_connect(stream_.socket(), *sequence,
                      [self = shared_from_this(), sequence](error_code ec, const auto&) {
                        if (self->phase_ != Phase::kClosed) self->on_connected(ec);
                      });
}

void RedisConnection::on_connected(error_code ec) {
  if (ec) return close({.reason = RedisErrc::kUnreachable, .detail = ec.message()});
  ::fcntl(stream_.socket().native_handle(), F_SETFD, FD_CLOEXEC);
  if (options_.url.transport != RedisUrl::Transport::kUnix) {
    error_code ignored;
    stream_.socket().set_option(Tcp::no_delay(true), ignored);
  }
  options_.url.transport == RedisUrl::Transport::kTls ? do_tls_handshake() : do_handshake();
}

void RedisConnection::do_tls_handshake() {
  RedisTls tls = options_.tls;
  if (tls.server_name.empty()) tls.server_name = options_.url.host;
  try {
    stream_.use_tls(tls);
  } catch (const std::exception& e) {
    return close({.reason = RedisErrc::kTls, .is_slow = true, .detail = e.what()});
  }
  stream_.async_handshake([self = shared_from_this()](error_code ec) {
    if (self->phase_ == Phase::kClosed) return;
    if (ec) return self->close({.reason = RedisErrc::kTls, .detail = ec.message()});
    self->do_handshake();
  });
}

void RedisConnection::do_handshake() {
  const RedisSecret& secret = options_.secret;
  try {
    handshake_.emplace(RedisHandshake::Options{
        secret.user, secret.is_set() ? secret.read_password() : std::string{}, options_.client_name,
        options_.url.database});
  } catch (const std::exception& e) {
    return close({.reason = RedisErrc::kSecret, .is_slow = true, .detail = e.what()});
  }
  phase_ = Phase::kHandshake;
  handshake_->append_commands(sent_.bytes);
  do_write();
  do_read();
}

void RedisConnection::do_read() {
  stream_.async_read_some(asio::buffer(read_buffer_),
                          [self = shared_from_this()](error_code ec, std::size_t bytes) {
                            if (self->phase_ != Phase::kClosed) self->on_read(ec, bytes);
                          });
}

void RedisConnection::on_read(error_code ec, std::size_t bytes) {
  if (ec) return close({.reason = RedisErrc::kClosedByServer, .detail = ec.message()});
  counters_.bytes_read.add(bytes);
  reader_.feed({read_buffer_.data(), bytes});
  while (phase_ != Phase::kClosed) {
    RedisReply reply;
    switch (reader_.next(reply)) {
      case ReplyReader::Status::kReply:
        on_reply(std::move(reply));
        break;
      case ReplyReader::Status::kNeedMore:
        return do_read();
      case ReplyReader::Status::kError:
        return close({.reason = RedisErrc::kProtocol, .detail = std::string(reader_.error())});
    }
  }
}

void RedisConnection::do_write() {
  if (!write_buffer_.empty() || sent_.bytes.empty()) return;
  write_buffer_.swap(sent_.bytes);
  stream_.async_write(asio::buffer(write_buffer_),
                      [self = shared_from_this()](error_code ec, std::size_t bytes) {
                        if (self->phase_ == Phase::kClosed) return;
                        self->counters_.bytes_written.add(bytes);
                        // What the server said before it closed may still be there to be read, and
                        // says more than "broken pipe": the reading side ends the connection.
                        if (ec) return;
                        self->write_buffer_.clear();
                        self->do_write();
                      });
}

void RedisConnection::on_reply(RedisReply reply) {
  if (phase_ == Phase::kHandshake) return on_handshake_reply(reply);
  if (sent_.commands.empty()) {
    return close({.reason = RedisErrc::kUnsolicited,
                  .detail = reply.is_error() ? reply.text.substr(0, kReplyTextShownMax) : ""});
  }
  on_command_reply(std::move(reply));
}

void RedisConnection::on_handshake_reply(const RedisReply& reply) {
  RedisHandshake::Verdict verdict = handshake_->on_reply(reply);
  if (verdict.reply_error) counters_.of(*verdict.reply_error).add();
  switch (verdict.kind) {
    case RedisHandshake::Verdict::Kind::kMore:
      return;
    case RedisHandshake::Verdict::Kind::kFailed:
      return close({.reason = verdict.error,
                    .is_slow = verdict.is_slow,
                    .detail = std::move(verdict.detail)});
    case RedisHandshake::Verdict::Kind::kReady:
      return on_ready();
  }
}

void RedisConnection::on_ready() {
  handshake_.reset();
  deadline_.cancel();
  deadline_armed_ = false;
  phase_ = Phase::kReady;
  // Moved out: the owner may abandon this connection from within.
  const auto ready = std::move(events_.ready);
  ready();
}

void RedisConnection::on_command_reply(RedisReply reply) {
  Command command = std::move(sent_.commands.front());
  sent_.commands.pop_front();
  counters_.replies.add();
  std::optional<ReplyError> error;
  if (reply.is_error()) error = classify_reply_error(reply.text);
  if (error == ReplyError::kNoScript && command.script != nullptr) {
    resend(std::move(command));
  } else {
    if (error == ReplyError::kNoScript && command.may_lack_script) error.reset();
    if (error) on_error_reply(*error, reply);
    counters_.round_trip.observe(MonoClock::now() - command.submitted);
    release(command);
    command.callback({}, std::move(reply));
  }
  if (phase_ == Phase::kClosed) return;
  if (error) react(*error);
  if (phase_ != Phase::kClosed && is_resending_ && sent_.commands.empty()) end_resending();
}

void RedisConnection::on_error_reply(ReplyError error, const RedisReply& reply) {
  const ReplyErrorFacts& facts = facts_of(error);
  counters_.of(error).add();
  log::warn(facts.kind, {{"reply", std::string_view(reply.text).substr(0, kReplyTextShownMax)}},
            "{}", facts.text);
}

void RedisConnection::react(ReplyError error) {
  const ReplyErrorFacts& facts = facts_of(error);
  if (facts.reaction == Reaction::kReconnect) {
    close({.reason = RedisErrc::kNotMaster});
  } else if (facts.reaction == Reaction::kReconnectSlowly) {
    close({.reason = RedisErrc::kAuthRefused, .is_slow = true, .detail = std::string(facts.text)});
  }
}

/// No trouble, but the usual way of a script into a server: only `scripts_resent` counts it.
void RedisConnection::resend(Command command) {
  log::debug("redis_script", "Redis does not know a script (yet): its source is sent");
  is_resending_ = true;
  counters_.scripts_resent.add();
  const RedisScript& script = *std::exchange(command.script, nullptr);
  const std::vector<std::string> script_args = std::move(command.script_args);
  std::vector<std::string_view> words{"EVAL", script.source()};
  words.insert(words.end(), script_args.begin(), script_args.end());

  const std::size_t before = again_.bytes.size();
  append_command(again_.bytes, words);
  const std::size_t bytes = again_.bytes.size() - before;
  bytes_in_flight_ += bytes - command.bytes;
  counters_.bytes_in_flight.set(static_cast<std::int64_t>(bytes_in_flight_));
  command.bytes = bytes;
  again_.commands.push_back(std::move(command));
}

/// Requires that everything sent before has been answered.
void RedisConnection::end_resending() {
  is_resending_ = false;
  for (Lane* lane : {&again_, &held_}) {
    std::move(lane->commands.begin(), lane->commands.end(), std::back_inserter(sent_.commands));
    sent_.bytes += lane->bytes;
    *lane = {};
  }
  do_write();
}

std::error_code RedisConnection::submit(RedisArgs args, RedisCallback callback) {
  if (const std::error_code ec = check_room(args)) return ec;
  accept(args, Command{.callback = std::move(callback)});
  return {};
}

std::error_code RedisConnection::eval(const RedisScript& script, RedisArgs keys, RedisArgs args,
                                      RedisCallback callback) {
  return send_call(script, keys, args, {.callback = std::move(callback), .script = &script});
}

std::error_code RedisConnection::eval_in_turn(const RedisScript& script, RedisArgs keys,
                                              RedisArgs args, RedisCallback callback) {
  return send_call(script, keys, args, {.callback = std::move(callback), .may_lack_script = true});
}

std::error_code RedisConnection::send_call(const RedisScript& script, RedisArgs keys,
                                           RedisArgs args, Command command) {
  const std::string key_count = std::to_string(keys.size());
  const std::array<std::string_view, 3> head{"EVALSHA", script.sha1(), key_count};
  const std::vector<std::string_view> words = join({head, keys, args});
  if (const std::error_code ec = check_room(words)) return ec;
  if (command.script != nullptr) command.script_args.assign(words.begin() + 2, words.end());
  accept(words, std::move(command));
  return {};
}

std::error_code RedisConnection::check_room(RedisArgs args) {
  RedisErrc refusal = RedisErrc::kNone;
  if (phase_ != Phase::kReady) {
    refusal = RedisErrc::kNotConnected;
  } else if (commands_in_flight_ >= options_.commands_in_flight_max) {
    refusal = RedisErrc::kTooManyCommands;
  } else if (bytes_in_flight_ + command_bytes_max(args) > options_.bytes_in_flight_max) {
    refusal = RedisErrc::kTooManyBytes;
  }
  if (refusal == RedisErrc::kNone) return {};
  counters_.of(refusal).add();
  return refusal;
}

void RedisConnection::accept(RedisArgs args, Command command) {
  Lane& lane = is_resending_ ? held_ : sent_;
  const std::size_t before = lane.bytes.size();
  append_command(lane.bytes, args);
  command.bytes = lane.bytes.size() - before;
  command.submitted = MonoClock::now();
  const MonoTime deadline = command.submitted + options_.command_timeout;
  bytes_in_flight_ += command.bytes;
  ++commands_in_flight_;
  counters_.commands.add();
  counters_.commands_in_flight.set(static_cast<std::int64_t>(commands_in_flight_));
  counters_.bytes_in_flight.set(static_cast<std::int64_t>(bytes_in_flight_));
  lane.commands.push_back(std::move(command));
  if (!deadline_armed_) arm_deadline(deadline);
  do_write();
}

void RedisConnection::release(const Command& command) {
  --commands_in_flight_;
  bytes_in_flight_ -= command.bytes;
  counters_.commands_in_flight.set(static_cast<std::int64_t>(commands_in_flight_));
  counters_.bytes_in_flight.set(static_cast<std::int64_t>(bytes_in_flight_));
}

void RedisConnection::arm_deadline(MonoTime deadline) {
  deadline_armed_ = true;
  deadline_.expires_at(deadline);
  deadline_.async_wait([self = shared_from_this()](error_code ec) {
    if (ec || self->phase_ == Phase::kClosed) return;
    self->on_deadline();
  });
}

/// One timer for all commands: it is armed for the oldest one in flight, and looks, when it is due,
/// which one that is by now.
void RedisConnection::on_deadline() {
  deadline_armed_ = false;
  if (phase_ == Phase::kResolving) {
    return close(
        {.reason = RedisErrc::kConnectTimeout, .detail = "its name is still being looked up"});
  }
  if (phase_ != Phase::kReady) return close({.reason = RedisErrc::kConnectTimeout});
  // While scripts are sent again the oldest may wait in that lane.
  const Lane& oldest = again_.commands.empty() ? sent_ : again_;
  if (oldest.commands.empty()) return;
  const MonoTime deadline = oldest.commands.front().submitted + options_.command_timeout;
  if (deadline > MonoClock::now()) return arm_deadline(deadline);
  close({.reason = RedisErrc::kTimeout});
}

void RedisConnection::abandon() {
  events_ = {};
  close({.reason = RedisErrc::kStopped});
}

void RedisConnection::close(RedisDown down) {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kResolving) resolver_.cancel();
  down.was_ready = phase_ == Phase::kReady;
  phase_ = Phase::kClosed;
  deadline_.cancel();
  stream_.close();
  const auto self = shared_from_this();  // a callback may let the owner go
  fail_commands(down.reason);
  if (const auto closed = std::move(events_.closed)) closed(down);
}

void RedisConnection::fail_commands(RedisErrc reason) {
  for (Lane* lane : {&again_, &sent_, &held_}) {
    for (const Command& command : std::exchange(lane->commands, {})) {
      release(command);
      command.callback(reason, {});
    }
  }
}

}  // namespace pulsewheel
