#include "daemon/redis/redis_handshake.h"

#include <array>
#include <string_view>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/redis/redis_command.h"

namespace pulsewheel {
namespace {

using Verdict = RedisHandshake::Verdict;

// With which a server that has as many clients as it may have greets one more, and closes.
constexpr std::string_view kTooManyClients = "ERR max number of clients reached";

Verdict failed(RedisErrc error, bool is_slow, std::string detail) {
  return {Verdict::Kind::kFailed, error, is_slow, std::nullopt, std::move(detail)};
}

}  // namespace

RedisHandshake::RedisHandshake(Options options) : options_(std::move(options)) {
  if (!options_.password.empty()) steps_.push_back(Step::kAuth);
  if (!options_.client_name.empty()) steps_.push_back(Step::kSetName);
  if (options_.database != 0) steps_.push_back(Step::kSelect);
  steps_.push_back(Step::kPing);
}

void RedisHandshake::append_commands(std::string& out) const {
  const auto append = [&out](std::initializer_list<std::string_view> words) {
    append_command(out, {words.begin(), words.size()});
  };
  for (const Step step : steps_) {
    switch (step) {
      case Step::kAuth:
        options_.user.empty() ? append({"AUTH", options_.password})
                              : append({"AUTH", options_.user, options_.password});
        break;
      case Step::kSetName:
        append({"CLIENT", "SETNAME", options_.client_name});
        break;
      case Step::kSelect:
        append({"SELECT", std::to_string(options_.database)});
        break;
      case Step::kPing:
        append({"PING"});
        break;
    }
  }
}

Verdict RedisHandshake::on_reply(const RedisReply& reply) {
  PULSEWHEEL_CHECK(next_ < steps_.size());
  const Step step = steps_[next_++];
  if (reply.is_error()) {
    Verdict verdict = on_error(step, reply);
    verdict.reply_error = classify_reply_error(reply.text);
    return verdict;
  }
  if (!reply.is_status(step == Step::kPing ? "PONG" : "OK")) {
    return failed(RedisErrc::kProtocol, false, std::string("an answer to ") + name_of(step));
  }
  return step == Step::kPing ? Verdict{.kind = Verdict::Kind::kReady} : Verdict{};
}

Verdict RedisHandshake::on_error(Step step, const RedisReply& reply) {
  const ReplyErrorFacts& facts = facts_of(classify_reply_error(reply.text));
  if (reply.text == kTooManyClients) return failed(RedisErrc::kNotServing, false, reply.text);
  if (facts.reaction == Reaction::kRetryLater) {
    return failed(RedisErrc::kNotServing, false, std::string(facts.text));
  }
  if (facts.reaction == Reaction::kReconnectSlowly) {
    return failed(RedisErrc::kAuthRefused, true, std::string(facts.text));
  }
  switch (step) {
    case Step::kAuth:
      // Not the server's own words: of a command that it does not know it repeats the arguments.
      return failed(RedisErrc::kAuthRefused, true,
                    "AUTH is refused: is a password set in Redis, and AUTH allowed?");
    case Step::kSetName:
      return {};  // The name is for people; it works without.
    case Step::kPing:
      // An ACL without PING: the server serves.
      if (facts.error == ReplyError::kNoPerm) return {.kind = Verdict::Kind::kReady};
      [[fallthrough]];
    case Step::kSelect:
      return failed(RedisErrc::kHandshakeRefused, true,
                    std::string(name_of(step)) + ": " + reply.text.substr(0, kReplyTextShownMax));
  }
  return {};
}

const char* RedisHandshake::name_of(Step step) noexcept {
  constexpr std::array kNames{"AUTH", "CLIENT SETNAME", "SELECT", "PING"};
  return kNames[static_cast<std::size_t>(step)];
}

}  // namespace pulsewheel
