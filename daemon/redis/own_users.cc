#include "daemon/redis/own_users.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/redis/repair_check.h"
#include "daemon/redis/ring_layout.h"

namespace pulsewheel {

OwnUsers::OwnUsers(RedisClient& client, const RingScripts& scripts, Duration timeout, Done done)
    : client_(client), scripts_(scripts), timeout_(timeout), done_(std::move(done)) {}

void OwnUsers::scan() {
  const std::string owners = scripts_.layout().names().owners();
  const auto refused = client_.submit({"HSCAN", owners, cursor_, "COUNT", kPerPage},
                                      [this](std::error_code ec, const RedisReply& page) {
                                        ec || !is_scan_page(page) ? finish() : on_page(page);
                                      });
  if (refused) finish();
}

void OwnUsers::on_page(const RedisReply& page) {
  cursor_ = page.elements[0].text;
  std::vector<std::string> uids;
  const std::vector<RedisReply>& pairs = page.elements[1].elements;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_held_only_by(pairs[i + 1].text, scripts_.node().name)) uids.push_back(pairs[i].text);
  }
  if (!uids.empty()) return read_deadlines(uids);
  cursor_ == "0" ? finish() : scan();
}

void OwnUsers::read_deadlines(const std::vector<std::string>& uids) {
  const std::string key = scripts_.layout().names().deadlines();
  std::vector<std::string_view> words{"HMGET", key};
  words.insert(words.end(), uids.begin(), uids.end());
  const auto refused =
      client_.submit({"TIME"}, [this](std::error_code, RedisReply reply) { time_ = reply; });
  if (refused) return finish();
  const auto refused_too =
      client_.submit(words, [this, uids](std::error_code ec, const RedisReply& reply) {
        if (ec || reply.elements.size() != uids.size()) return finish();
        on_deadlines(uids, time_, reply);
        cursor_ == "0" ? finish() : scan();
      });
  if (refused_too) finish();
}

/// A deadline further away than the ring reaches is none that we wrote.
void OwnUsers::on_deadlines(const std::vector<std::string>& uids, const RedisReply& time,
                            const RedisReply& deadlines) {
  const MonoTime now = MonoClock::now();
  const auto redis_now = parse_redis_time(time);
  if (!redis_now) return;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const auto deadline = parse_unix_ms(deadlines.elements[i].text);
    if (!deadline || *deadline <= *redis_now) continue;
    const auto remaining = *deadline - *redis_now;
    if (remaining > scripts_.layout().span() || uids[i].empty() ||
        uids[i].size() > kRingUidBytesMax) {
      continue;
    }
    users_.push({.uid = uids[i],
                 .deadline = now + remaining,
                 .last_seen = std::min(now, now + remaining - timeout_)});
  }
}

void OwnUsers::finish() {
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(users_));
}

}  // namespace pulsewheel
