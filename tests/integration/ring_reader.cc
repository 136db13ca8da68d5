#include "tests/integration/ring_reader.h"

#include <cstdlib>
#include <set>

#include "daemon/redis/ring_layout.h"

namespace pulsewheel::test {
namespace {

/// Answers: time, slots, members of each slot, index, deadlines, owners.
constexpr const char* kReadAll = R"lua(
local slots = redis.call('LRANGE', 'testlist', 0, -1)
local members = {}
for i, slot in ipairs(slots) do members[i] = redis.call('SMEMBERS', slot) end
return {redis.call('TIME'), slots, members, redis.call('HGETALL', 'timeline-index'),
  redis.call('HGETALL', 'pulsewheel:deadline'), redis.call('HGETALL', 'pulsewheel:owners')}
)lua";

using Pairs = std::map<std::string, std::string>;

Pairs pairs_of(const RedisReply& reply) {
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2)
    pairs[reply.elements[i].text] = reply.elements[i + 1].text;
  return pairs;
}

}  // namespace

Ring read_ring(const RedisServer& redis) {
  const RedisReply all = redis.command({"EVAL", kReadAll, "0"});
  Ring ring;
  if (!all.is_array() || all.elements.size() != 6) {
    ring.faults.push_back("cannot be read: " + all.text);
    return ring;
  }
  const std::int64_t now_ms = std::stoll(all.elements[0].elements[0].text) * 1'000 +
                              std::stoll(all.elements[0].elements[1].text) / 1'000;
  std::vector<std::string> slots;
  std::map<std::string, std::set<std::string>> slots_of;  // by uid
  for (std::size_t i = 0; i < all.elements[1].elements.size(); ++i) {
    slots.push_back(all.elements[1].elements[i].text);
    for (const RedisReply& uid : all.elements[2].elements[i].elements)
      slots_of[uid.text].insert(slots.back());
  }
  const Pairs index = pairs_of(all.elements[3]);
  const Pairs deadlines = pairs_of(all.elements[4]);
  const Pairs owners = pairs_of(all.elements[5]);

  const RingLayout layout({}, slots.size() == RingLayout::kSlotsDocumented
                                  ? RingLayout::kSlotsDocumented
                                  : RingLayout::kSlotsDefault);
  for (const auto& [uid, slot] : index) {
    Ring::User& user = ring.users[uid];
    user.slot = slot;
    if (const auto found = owners.find(uid); found != owners.end()) user.owners = found->second;
    if (user.owners.empty()) continue;  // somebody else's
    if (slots_of[uid] != std::set<std::string>{slot}) {
      ring.faults.push_back(uid + " is not just in its slot " + slot);
    }
    const auto deadline = deadlines.find(uid);
    if (deadline == deadlines.end()) {
      ring.faults.push_back(uid + " has no deadline");
      continue;
    }
    user.deadline_ms = std::strtoll(deadline->second.c_str(), nullptr, 10);
    user.remaining_ms = user.deadline_ms - now_ms;
    if (slots[layout.slot_of(std::chrono::milliseconds{user.deadline_ms})] != slot) {
      ring.faults.push_back(uid + " is in a slot that is not that of its deadline: " + slot);
    }
  }
  for (const Pairs* beside : {&deadlines, &owners}) {
    for (const auto& [uid, value] : *beside) {
      if (!index.contains(uid)) ring.faults.push_back(uid + " is not in the index");
    }
  }
  return ring;
}

std::vector<std::string> read_edges(const RedisServer& redis) {
  std::vector<std::string> edges;
  for (const RedisReply& entry :
       redis.command({"XRANGE", "pulsewheel:events", "-", "+"}).elements) {
    const Pairs fields = pairs_of(entry.elements[1]);
    edges.push_back(fields.at("kind") + " " + fields.at("uid") + " " + fields.at("reason"));
  }
  return edges;
}

}  // namespace pulsewheel::test
