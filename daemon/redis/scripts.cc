#include "daemon/redis/scripts.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

// What the batch scripts share. KEYS: ring, index, deadlines, owners, stream. ARGV: slots, span in
// ms, node name, node epoch, prefix of leases, entries kept in the stream, then the users.
//
// Names of slots come out of the ring and the index, so their keys cannot be declared: a cluster
// takes them only with one hash tag in all names.
constexpr std::string_view kCommon = R"lua(
local ring, index, deadlines, owners, stream = unpack(KEYS)
local count, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local name, epoch, lease_prefix, entries = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local self = name .. ':' .. epoch
local first_user = 7

-- Nothing is rolled back when a script fails: whatever can be wrong is looked at before the first
-- write.
local function wrong_type(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found == wanted or found == 'none' then return nil end
  return redis.error_reply('WRONGTYPE the key ' .. key .. ' is a ' .. found .. ' and not a ' .. wanted)
end
local wrong = wrong_type(ring, 'list') or wrong_type(index, 'hash') or wrong_type(deadlines, 'hash')
  or wrong_type(owners, 'hash') or wrong_type(stream, 'stream')
if wrong then return wrong end
local slots = redis.call('LRANGE', ring, 0, -1)
if #slots ~= count then
  return redis.error_reply('RINGLENGTH the ring has ' .. #slots .. ' slots and not ' .. count)
end
for _, slot in ipairs(slots) do
  wrong = wrong_type(slot, 'set')
  if wrong then return wrong end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function slot_of(deadline)
  return slots[(math.floor(deadline / 1000) + 1) % count + 1]
end

-- The users of the call, each once; values[uid] has the words behind the last one of each.
local function read_users(words)
  local uids, values = {}, {}
  for i = first_user, #ARGV, words do
    local uid = ARGV[i]
    if not values[uid] then uids[#uids + 1] = uid end
    values[uid] = {ARGV[i + 1], ARGV[i + 2]}
  end
  return uids, values
end

-- One outcome for each user of the call, also where one is named twice.
local function in_order(words, outcomes)
  local all = {}
  for i = first_user, #ARGV, words do all[#all + 1] = outcomes[ARGV[i]] end
  return all
end

local function push(lists, key, value)
  local list = lists[key]
  if list then list[#list + 1] = value else lists[key] = {value} end
end

-- SREM of lists[slot]; an index may name what is no slot.
local function leave(lists)
  for slot, uids in pairs(lists) do
    if redis.call('TYPE', slot).ok == 'set' then redis.call('SREM', slot, unpack(uids)) end
  end
end

local function append(list, a, b) list[#list + 1] = a; list[#list + 1] = b end
local function write(command, key, words)
  if #words > 0 then redis.call(command, key, unpack(words)) end
end

local function edge(kind, uid, reason)
  redis.call('XADD', stream, 'MAXLEN', '~', entries, '*', 'kind', kind, 'uid', uid,
    'reason', reason, 'node', name, 'epoch', epoch, 'at', string.format('%.0f', now))
end
)lua";

// Files the users that read_users() has given, the remaining ms first among their words.
constexpr std::string_view kFile = R"lua(
-- The owners in `held` but this node, and whether they are all but itself: not there twice, nor
-- with an earlier epoch.
local function look_at(held)
  local others, selves, is_ours = {}, 0, false
  for owner in string.gmatch(held or '', '[^,]+') do
    if string.match(owner, '^[^:]*') ~= name then
      others[#others + 1] = owner
    else
      selves = selves + 1
      is_ours = owner == self
    end
  end
  return table.concat(others, ','), is_ours and selves == 1
end

local function file(uids, values)
  local was = redis.call('HMGET', index, unpack(uids))
  local due = redis.call('HMGET', deadlines, unpack(uids))
  local held = redis.call('HMGET', owners, unpack(uids))
  local leaving, entering = {}, {}
  local to_index, to_deadlines, to_owners = {}, {}, {}
  local outcomes = {}
  for n, uid in ipairs(uids) do
    local others, is_ours = look_at(held[n])
    local deadline = now + math.min(math.max(tonumber(values[uid][1]), 0), span)
    local theirs = others ~= '' and tonumber(due[n] or '')
    if theirs and theirs > deadline then deadline = math.min(theirs, now + span) end
    local slot = slot_of(deadline)
    if was[n] and was[n] ~= slot then push(leaving, was[n], uid) end
    push(entering, slot, uid)
    append(to_index, uid, slot)
    append(to_deadlines, uid, string.format('%.0f', deadline))
    if not is_ours then append(to_owners, uid, others == '' and self or others .. ',' .. self) end
    outcomes[uid] = was[n] and 0 or 1
  end
  leave(leaving)
  for slot, members in pairs(entering) do redis.call('SADD', slot, unpack(members)) end
  write('HSET', index, to_index)
  write('HSET', deadlines, to_deadlines)
  write('HSET', owners, to_owners)
  return outcomes
end
)lua";

constexpr std::string_view kMove = R"lua(
local uids, values = read_users(2)
if #uids == 0 then return {} end
return in_order(2, file(uids, values))
)lua";

constexpr std::string_view kMoveByLease = R"lua(
local uids, values = read_users(2)
if #uids == 0 then return {} end
local lease = lease_prefix .. name
if redis.call('TYPE', lease).ok ~= 'string' or redis.call('GET', lease) ~= epoch then
  local outcomes = {}
  for _, uid in ipairs(uids) do outcomes[uid] = 7 end
  return in_order(2, outcomes)
end
return in_order(2, file(uids, values))
)lua";

constexpr std::string_view kAdd = R"lua(
local uids, values = read_users(3)
if #uids == 0 then return {} end
local outcomes = file(uids, values)
for _, uid in ipairs(uids) do
  if outcomes[uid] == 1 then edge('online', uid, values[uid][2]) end
end
return in_order(3, outcomes)
)lua";

// Which owners are alive. Whoever runs a script is, whatever became of its lease.
constexpr std::string_view kLeases = R"lua(
local leases = {}
local function is_alive(owner)
  if owner == self then return true end
  local node, of_epoch = string.match(owner, '^([^:]*):(.*)$')
  if not node then return false end
  if leases[node] == nil then
    local lease = lease_prefix .. node
    leases[node] = redis.call('TYPE', lease).ok == 'string' and redis.call('GET', lease)
  end
  return leases[node] == of_epoch
end
)lua";

constexpr std::string_view kRemove = R"lua(
local uids, values = read_users(2)
if #uids == 0 then return {} end

-- Whether this node, in this life of it or an earlier one, is among the owners in `held`, and the
-- live ones but it.
local function look_at(held)
  local is_ours, others = false, {}
  for owner in string.gmatch(held or '', '[^,]+') do
    local node, of_epoch = string.match(owner, '^([^:]*):(%d+)$')
    if node == name and tonumber(of_epoch) <= tonumber(epoch) then is_ours = true
    elseif is_alive(owner) then others[#others + 1] = owner end
  end
  return is_ours, table.concat(others, ',')
end

local was = redis.call('HMGET', index, unpack(uids))
local due = redis.call('HMGET', deadlines, unpack(uids))
local held = redis.call('HMGET', owners, unpack(uids))
local leaving, offline = {}, {}
local from_index, from_ours, to_owners = {}, {}, {}
local outcomes = {}
for n, uid in ipairs(uids) do
  local is_ours, others = look_at(held[n])
  local deadline = tonumber(due[n] or '')
  if not is_ours then
    outcomes[uid] = 3
  elseif others ~= '' then
    append(to_owners, uid, others)
    outcomes[uid] = 4
  else
    from_ours[#from_ours + 1] = uid
    if not was[n] then
      outcomes[uid] = 6
    elseif deadline and was[n] == slot_of(deadline) then
      push(leaving, was[n], uid)
      from_index[#from_index + 1] = uid
      offline[#offline + 1] = uid
      outcomes[uid] = 2
    else
      outcomes[uid] = 5
    end
  end
end
leave(leaving)
write('HDEL', index, from_index)
write('HDEL', deadlines, from_ours)
write('HDEL', owners, from_ours)
write('HSET', owners, to_owners)
for _, uid in ipairs(offline) do edge('offline', uid, values[uid][1]) end
return in_order(2, outcomes)
)lua";

// KEYS also: hand. ARGV: about how many members to look at, ms for those without a deadline.
//
// One slot is read a call, from where the last call stopped. Each member that is looked at leaves
// it, but for those whose right slot is this one (a late hand finds some): so a cursor is kept, and
// no member is met again and again.
constexpr std::string_view kClaim = R"lua(
local hand, budget, unowned = KEYS[6], ARGV[7], tonumber(ARGV[8])
wrong = wrong_type(hand, 'hash')
if wrong then return wrong end
local second = math.floor(now / 1000)

local function whole(text)
  local number = tonumber(text or '')
  if number and number >= 0 and number < 2^53 then return math.floor(number) end
end
local found = redis.call('HMGET', hand, 'second', 'careful_until', 'cursor')
local done = whole(found[1]) or second - 1
local careful_until = math.min(whole(found[2]) or 0, second + count)
local cursor = found[3] and #found[3] < 19 and string.match(found[3], '^%d+$') or '0'

-- The hand is late, or TIME has jumped: for a lap, a user may stand in a slot by a time that was
-- another. Each slot is read at most once.
if done < second - 1 or done > second then
  careful_until = second + count
  local nearest = math.max(math.min(done, second - 1), second - count)
  if nearest ~= done then done, cursor = nearest, '0' end
end
local reading = done + 1
if reading > second then return {0, 0, now, 0, {}} end
local late = now - reading * 1000
local slot = slots[reading % count + 1]
local is_exact = reading == second and second >= careful_until
local is_slot = {}
for _, name_of_slot in ipairs(slots) do is_slot[name_of_slot] = true end

local claimed, leaving, entering, refiled = {}, {}, {}, 0
local forgotten, to_index, to_deadlines = {}, {}, {}

local function forget(uid)
  leaving[#leaving + 1] = uid
  forgotten[#forgotten + 1] = uid
end

local function refile(uid, deadline)
  local other = slot_of(deadline)
  if other ~= slot then
    leaving[#leaving + 1] = uid
    push(entering, other, uid)
  end
  append(to_index, uid, other)
  append(to_deadlines, uid, string.format('%.0f', deadline))
  refiled = refiled + 1
end

local function is_held(held)
  for owner in string.gmatch(held or '', '[^,]+') do
    if is_alive(owner) then return true end
  end
  return false
end

local function look_at(uid, was, due, held)
  if was and was ~= slot and is_slot[was] then
    leaving[#leaving + 1] = uid  -- a copy that somebody left behind: the index decides
    push(entering, was, uid)
    return
  end
  local held_by_live = is_held(held)
  if not was and not held_by_live then return forget(uid) end  -- is not in the ring for any reader
  -- A deadline tells nothing once somebody who does not know it has moved the user.
  if due and slot_of(due) ~= slot then due = nil end
  local is_ahead = due and due > now
  if not held_by_live and not is_ahead and
      (is_exact or due and math.floor(due / 1000) + 1 == reading) then
    claimed[#claimed + 1] = uid
    return forget(uid)
  end
  if is_ahead then refile(uid, math.min(due, now + span))
  elseif held_by_live then refile(uid, now)  -- the owner's to decide: comes again in a second
  else refile(uid, now + math.min(unowned, span)) end
end

local part = redis.call('SSCAN', slot, cursor, 'COUNT', budget)
local members = part[2]
if #members > 0 then
  local was = redis.call('HMGET', index, unpack(members))
  local due = redis.call('HMGET', deadlines, unpack(members))
  local held = redis.call('HMGET', owners, unpack(members))
  for n, uid in ipairs(members) do look_at(uid, was[n], whole(due[n]), held[n]) end
end

if #leaving > 0 then redis.call('SREM', slot, unpack(leaving)) end
for other, uids in pairs(entering) do redis.call('SADD', other, unpack(uids)) end
for _, key in ipairs({index, deadlines, owners}) do write('HDEL', key, forgotten) end
write('HSET', index, to_index)
write('HSET', deadlines, to_deadlines)
for _, uid in ipairs(claimed) do edge('offline', uid, 'timeout') end
if part[1] == '0' then done = reading end
redis.call('HSET', hand, 'second', string.format('%.0f', done),
  'careful_until', string.format('%.0f', careful_until), 'cursor', part[1])
return {(done < second or part[1] ~= '0') and 1 or 0, late, now, refiled, claimed}
)lua";

// KEYS: slot, index, owners. ARGV: node name, then the users.
constexpr std::string_view kUnfile = R"lua(
local slot, index, owners = unpack(KEYS)
local name = ARGV[1]
local uids = {unpack(ARGV, 2)}
if #uids == 0 then return 0 end
local was = redis.call('HMGET', index, unpack(uids))
local held = redis.call('HMGET', owners, unpack(uids))
local leaving = {}
for n, uid in ipairs(uids) do
  local is_ours = string.find(',' .. (held[n] or ''), ',' .. name .. ':', 1, true)
  if is_ours and was[n] ~= slot then leaving[#leaving + 1] = uid end
end
if #leaving == 0 then return 0 end
return redis.call('SREM', slot, unpack(leaving))
)lua";

// KEYS: ring. ARGV: the slots' names.
constexpr std::string_view kCreateRing = R"lua(
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('RPUSH', KEYS[1], unpack(ARGV)) end
return redis.call('LRANGE', KEYS[1], 0, -1)
)lua";

// KEYS: lease. ARGV: epoch, ms.
constexpr std::string_view kLease = R"lua(
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
)lua";

// KEYS: lease. ARGV: epoch.
constexpr std::string_view kRelease = R"lua(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
)lua";

std::string join(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts)
    whole += part;
  return whole;
}

const RedisScript& move_script() {
  static const std::string source = join({kCommon, kFile, kMove});
  static const RedisScript script(source);
  return script;
}
const RedisScript& move_by_lease_script() {
  static const std::string source = join({kCommon, kFile, kMoveByLease});
  static const RedisScript script(source);
  return script;
}
const RedisScript& add_script() {
  static const std::string source = join({kCommon, kFile, kAdd});
  static const RedisScript script(source);
  return script;
}
const RedisScript& remove_script() {
  static const std::string source = join({kCommon, kLeases, kRemove});
  static const RedisScript script(source);
  return script;
}
const RedisScript& claim_script() {
  static const std::string source = join({kCommon, kLeases, kClaim});
  static const RedisScript script(source);
  return script;
}
const RedisScript& unfile_script() {
  static const RedisScript script(kUnfile);
  return script;
}
const RedisScript& create_ring_script() {
  static const RedisScript script(kCreateRing);
  return script;
}
const RedisScript& lease_script() {
  static const RedisScript script(kLease);
  return script;
}
const RedisScript& release_script() {
  static const RedisScript script(kRelease);
  return script;
}

}  // namespace

RingScripts::RingScripts(RingLayout layout, RingNode node, std::uint64_t stream_entries_max)
    : layout_(std::move(layout)),
      node_(std::move(node)),
      stream_entries_max_(std::to_string(stream_entries_max)) {
  PULSEWHEEL_CHECK(RingNode::is_valid_name(node_.name));
}

RingCall RingScripts::create_ring() const {
  return {&create_ring_script(), {layout_.names().ring}, layout_.default_slot_names()};
}

/// A call of a batch script without its users, and with room for their words.
RingCall RingScripts::batch(const RedisScript& script, std::size_t words) const {
  const RingNames& names = layout_.names();
  RingCall call{
      &script, {names.ring, names.index, names.deadlines(), names.owners(), names.events()}, {}};
  const std::string head[] = {std::to_string(layout_.slots()),
                              std::to_string(layout_.span().count()),
                              node_.name,
                              std::to_string(node_.epoch),
                              names.node_prefix(),
                              stream_entries_max_};
  call.args.reserve(std::size(head) + words);
  call.args.assign(std::begin(head), std::end(head));
  return call;
}

RingCall RingScripts::move(std::span<const RingMove> users) const {
  return move_with(move_script(), users);
}

RingCall RingScripts::move_by_lease(std::span<const RingMove> users) const {
  RingCall call = move_with(move_by_lease_script(), users);
  call.in_its_turn = true;
  return call;
}

RingCall RingScripts::move_with(const RedisScript& script, std::span<const RingMove> users) const {
  PULSEWHEEL_CHECK(users.size() <= kRingBatchMax);
  RingCall call = batch(script, users.size() * 2);
  for (const RingMove& user : users) {
    call.args.emplace_back(user.uid);
    call.args.push_back(std::to_string(user.remaining.count()));
  }
  return call;
}

RingCall RingScripts::add(std::span<const RingAdd> users) const {
  PULSEWHEEL_CHECK(users.size() <= kRingBatchMax);
  RingCall call = batch(add_script(), users.size() * 3);
  for (const RingAdd& user : users) {
    call.args.emplace_back(user.uid);
    call.args.push_back(std::to_string(user.remaining.count()));
    call.args.emplace_back(user.reason);
  }
  return call;
}

RingCall RingScripts::remove(std::span<const RingRemove> users) const {
  PULSEWHEEL_CHECK(users.size() <= kRingBatchMax);
  RingCall call = batch(remove_script(), users.size() * 2);
  for (const RingRemove& user : users) {
    call.args.emplace_back(user.uid);
    call.args.emplace_back(user.reason);
  }
  return call;
}

RingCall RingScripts::claim(std::size_t members) const {
  PULSEWHEEL_CHECK(members >= 1 && members <= kRingBatchMax);
  RingCall call = batch(claim_script(), 2);
  call.keys.push_back(layout_.names().hand());
  call.args.push_back(std::to_string(members));
  call.args.push_back(std::to_string(RingLayout::kUnownedLife.count()));
  return call;
}

std::optional<RingClaim> RingClaim::parse(const RedisReply& reply) {
  constexpr std::size_t kParts = 5;
  if (!reply.is_array() || reply.elements.size() != kParts) return std::nullopt;
  const auto& parts = reply.elements;
  if (!std::all_of(parts.begin(), parts.end() - 1, [](const auto& p) { return p.is_integer(); }) ||
      !parts.back().is_array() || parts[2].integer < 0) {
    return std::nullopt;
  }
  RingClaim claim{.work_left = parts[0].integer != 0,
                  .late = std::chrono::milliseconds{parts[1].integer},
                  .now = std::chrono::milliseconds{parts[2].integer},
                  .refiled = static_cast<std::size_t>(std::max<std::int64_t>(parts[3].integer, 0)),
                  .uids = {}};
  for (const RedisReply& uid : parts.back().elements)
    claim.uids.push_back(uid.text);
  return claim;
}

RingCall RingScripts::unfile(std::string_view slot, std::span<const std::string_view> uids) const {
  PULSEWHEEL_CHECK(uids.size() <= kRingBatchMax);
  const RingNames& names = layout_.names();
  RingCall call{&unfile_script(), {std::string(slot), names.index, names.owners()}, {node_.name}};
  call.args.insert(call.args.end(), uids.begin(), uids.end());
  return call;
}

RingCall RingScripts::lease(std::chrono::milliseconds length) const {
  return {&lease_script(),
          {layout_.names().node(node_.name)},
          {std::to_string(node_.epoch), std::to_string(length.count())}};
}

RingCall RingScripts::release() const {
  return {&release_script(), {layout_.names().node(node_.name)}, {std::to_string(node_.epoch)}};
}

std::error_code call(RedisClient& client, const RingCall& call, RedisCallback callback) {
  const std::vector<std::string_view> keys(call.keys.begin(), call.keys.end());
  const std::vector<std::string_view> args(call.args.begin(), call.args.end());
  return call.in_its_turn ? client.eval_in_turn(*call.script, keys, args, std::move(callback))
                          : client.eval(*call.script, keys, args, std::move(callback));
}

}  // namespace pulsewheel
