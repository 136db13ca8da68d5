#include "tests/client_sim/redis_ring.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "tests/client_sim/options.h"

namespace pulsewheel::sim {
namespace {

/// Elements that one step of a scan asks for: a reply of some 50 kB.
constexpr const char* kScanCount = "1000";

constexpr const char* kUrlShape =
    "--verify-redis: redis://HOST[:PORT][/DATABASE] or unix:///PATH[?db=DATABASE]";

template <class Number>
std::optional<Number> parse_number(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return number;
}

template <class Number>
Number number_in_url(std::string_view text) {
  const auto number = parse_number<Number>(text);
  if (!number) throw UsageError(kUrlShape);
  return *number;
}

/// Cuts `text` at the first `mark` behind `from` and returns what stood behind it; "" without one.
std::string cut_behind(std::string& text, char mark, std::size_t from = 0) {
  const std::size_t at = text.find(mark, from);
  if (at == std::string::npos) return {};
  std::string rest = text.substr(at + 1);
  text.resize(at);
  return rest;
}

std::string_view text_of(const redisReply& reply) noexcept {
  const bool has_text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS ||
                        reply.type == REDIS_REPLY_ERROR;
  return has_text ? std::string_view(reply.str, reply.len) : std::string_view();
}

std::span<redisReply* const> elements_of(const redisReply& reply) noexcept {
  return {reply.element, reply.type == REDIS_REPLY_ARRAY ? reply.elements : 0};
}

std::int64_t deadline_of(std::string_view text) noexcept {
  return parse_number<std::int64_t>(text).value_or(RingEntry::kNoDeadline);
}

timeval to_timeval(std::chrono::seconds duration) {
  return {static_cast<time_t>(duration.count()), 0};
}

}  // namespace

RedisAddress RedisAddress::parse(const std::string& url) {
  constexpr std::string_view kTcp = "redis://";
  constexpr std::string_view kUnix = "unix://";
  RedisAddress address;
  if (url.starts_with(kUnix)) {
    address.path = url.substr(kUnix.size());
    const std::string query = cut_behind(address.path, '?');
    if (!query.empty()) {
      if (!query.starts_with("db=")) throw UsageError(kUrlShape);
      address.database = number_in_url<std::uint32_t>(std::string_view(query).substr(3));
    }
    if (!address.path.starts_with('/')) throw UsageError(kUrlShape);
    return address;
  }
  if (!url.starts_with(kTcp)) throw UsageError(kUrlShape);
  address.host = url.substr(kTcp.size());
  const std::string database = cut_behind(address.host, '/');
  if (!database.empty()) address.database = number_in_url<std::uint32_t>(database);
  const bool bracketed = address.host.starts_with('[');
  const std::string port = cut_behind(address.host, ':', bracketed ? address.host.find(']') : 0);
  if (!port.empty()) address.port = number_in_url<std::uint16_t>(port);
  if (bracketed && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host.empty() || address.host.find_first_of("[]@") != std::string::npos) {
    throw UsageError(kUrlShape);
  }
  return address;
}

void RedisRing::FreeContext::operator()(redisContext* context) const noexcept {
  ::redisFree(context);
}

void RedisRing::FreeReply::operator()(redisReply* reply) const noexcept {
  ::freeReplyObject(reply);
}

RedisRing::RedisRing(RedisAddress address, RingKeys keys, const UidNames& names,
                     std::uint32_t users)
    : address_(std::move(address)), keys_(std::move(keys)), names_(names), users_(users) {}

void RedisRing::connect() {
  if (context_) return;
  const timeval timeout = to_timeval(kTimeout);
  context_.reset(address_.host.empty()
                     ? ::redisConnectUnixWithTimeout(address_.path.c_str(), timeout)
                     : ::redisConnectWithTimeout(address_.host.c_str(), address_.port, timeout));
  if (!context_ || context_->err != 0) fail("cannot connect");
  if (::redisSetTimeout(context_.get(), timeout) != REDIS_OK) fail("cannot set a timeout");
  if (address_.database != 0) {
    static_cast<void>(command({"SELECT", std::to_string(address_.database)}));
  }
}

void RedisRing::fail(const std::string& what) {
  std::string why = what;
  if (context_ && context_->err != 0) why += ": " + std::string(context_->errstr);
  // Replies that are still on their way would be taken for those of the next command.
  context_.reset();
  throw RedisTrouble("Redis: " + why);
}

void RedisRing::append(const Words& words) {
  connect();
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  if (::redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                               sizes.data()) != REDIS_OK) {
    fail(words.front());
  }
}

RedisRing::Reply RedisRing::next_reply() {
  void* raw = nullptr;
  if (::redisGetReply(context_.get(), &raw) != REDIS_OK || raw == nullptr) fail("no reply");
  Reply reply(static_cast<redisReply*>(raw));
  if (reply->type == REDIS_REPLY_ERROR) fail(std::string(text_of(*reply)));
  return reply;
}

RedisRing::Reply RedisRing::command(const Words& words) {
  append(words);
  return next_reply();
}

RingClock RedisRing::clock() {
  connect();
  RingClock clock;
  clock.before = MonoClock::now();
  const Reply reply = command({"TIME"});
  clock.after = MonoClock::now();
  const auto parts = elements_of(*reply);
  if (parts.size() != 2) fail("TIME answers no time");
  clock.unix_ms = parse_number<std::int64_t>(text_of(*parts[0])).value_or(0) * 1'000 +
                  parse_number<std::int64_t>(text_of(*parts[1])).value_or(0) / 1'000;
  return clock;
}

void RedisRing::read_slot_names() {
  const Reply reply = command({"LRANGE", keys_.list, "0", std::to_string(kRingSlotsMax)});
  slots_.clear();
  for (const redisReply* name : elements_of(*reply))
    slots_.emplace_back(text_of(*name));
  if (slots_.size() < 3 || slots_.size() > kRingSlotsMax) {
    fail("the list '" + keys_.list + "' names " + std::to_string(slots_.size()) +
         " slots: no ring that the daemon keeps");
  }
}

void RedisRing::scan_key(const std::string& command_name, const std::string& key,
                         const std::function<void(std::span<redisReply* const>)>& visit) {
  std::string cursor = "0";
  do {
    const Reply reply = command({command_name, key, cursor, "COUNT", kScanCount});
    const auto parts = elements_of(*reply);
    if (parts.size() != 2) fail(command_name + " answers no cursor");
    cursor = text_of(*parts[0]);
    visit(elements_of(*parts[1]));
  } while (cursor != "0");
}

RingEntry* RedisRing::entry_of(RingSnapshot& ring, std::string_view uid) const {
  const std::optional<std::uint32_t> user = names_.number(uid);
  if (!user) return nullptr;
  if (*user < users_) return &ring.users[*user];
  ring.strangers.emplace(uid);
  return nullptr;
}

std::int8_t RedisRing::slot_named(std::string_view name) const noexcept {
  const auto found = std::find(slots_.begin(), slots_.end(), name);
  return found == slots_.end() ? RingEntry::kUnknownSlot
                               : static_cast<std::int8_t>(found - slots_.begin());
}

RingSnapshot RedisRing::scan() {
  read_slot_names();
  RingSnapshot ring;
  ring.slots = slots_.size();
  ring.users.resize(users_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    scan_key("SSCAN", slots_[slot], [&](std::span<redisReply* const> members) {
      for (const redisReply* uid : members) {
        if (RingEntry* const entry = entry_of(ring, text_of(*uid))) {
          entry->sets |= std::uint64_t{1} << slot;
        }
      }
    });
  }
  scan_key("HSCAN", keys_.index, [&](std::span<redisReply* const> pairs) {
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      RingEntry* const entry = entry_of(ring, text_of(*pairs[i]));
      if (entry != nullptr) entry->slot = slot_named(text_of(*pairs[i + 1]));
    }
  });
  scan_key("HSCAN", keys_.deadlines(), [&](std::span<redisReply* const> pairs) {
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      RingEntry* const entry = entry_of(ring, text_of(*pairs[i]));
      if (entry != nullptr) entry->deadline_ms = deadline_of(text_of(*pairs[i + 1]));
    }
  });
  return ring;
}

std::vector<RingEntry> RedisRing::read_entries(std::span<const std::string> uids) {
  const auto with_uids = [uids](Words words) {
    words.insert(words.end(), uids.begin(), uids.end());
    return words;
  };
  append({"MULTI"});
  append(with_uids({"HMGET", keys_.index}));
  append(with_uids({"HMGET", keys_.deadlines()}));
  for (const std::string& slot : slots_)
    append(with_uids({"SMISMEMBER", slot}));
  append({"EXEC"});
  for (std::size_t queued = 0; queued < slots_.size() + 3; ++queued)
    static_cast<void>(next_reply());
  const Reply reply = next_reply();
  const auto parts = elements_of(*reply);
  if (parts.size() != slots_.size() + 2) fail("EXEC answers too few replies");
  for (const redisReply* part : parts) {
    if (part->type == REDIS_REPLY_ERROR) fail(std::string(text_of(*part)));
    if (elements_of(*part).size() != uids.size()) fail("EXEC answers too few users");
  }
  std::vector<RingEntry> entries(uids.size());
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const redisReply& slot = *parts[0]->element[i];
    if (slot.type == REDIS_REPLY_STRING) entries[i].slot = slot_named(text_of(slot));
    entries[i].deadline_ms = deadline_of(text_of(*parts[1]->element[i]));
    for (std::size_t n = 0; n < slots_.size(); ++n) {
      if (parts[n + 2]->element[i]->integer == 1) entries[i].sets |= std::uint64_t{1} << n;
    }
  }
  return entries;
}

void RedisRing::reread(RingSnapshot& ring, std::span<const DifferentUser> users) {
  std::vector<std::string> uids;
  for (const DifferentUser& different : users) {
    UidNames::Buffer buffer;
    uids.emplace_back(names_.write(different.user, buffer));
  }
  uids.insert(uids.end(), ring.strangers.begin(), ring.strangers.end());
  for (std::size_t first = 0; first < uids.size(); first += kUsersAtOnce) {
    const auto part = std::span(uids).subspan(first, std::min(kUsersAtOnce, uids.size() - first));
    const std::vector<RingEntry> entries = read_entries(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (first + i < users.size()) {
        ring.users[users[first + i].user] = entries[i];
      } else if (entries[i] == RingEntry{}) {
        ring.strangers.erase(part[i]);
      }
    }
  }
}

}  // namespace pulsewheel::sim
