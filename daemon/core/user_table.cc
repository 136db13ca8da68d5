#include "daemon/core/user_table.h"

#include <algorithm>
#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel {

using Form = UserRecord::Form;

namespace {

/// Keeps the hash of the table apart from home_shard_of(), which may use the same seed.
constexpr std::uint64_t kTableDomain = 0x7461'626c'65ULL;

}  // namespace

UserTable::UserTable(std::uint64_t hash_seed, TimeWheel& wheel)
    : wheel_(wheel), key_{hash_seed, kTableDomain} {
  parts_.reserve(kParts);
  for (std::size_t i = 0; i < kParts; ++i)
    parts_.emplace_back(0, Hash{this}, Equal{this});
}

UserTable::~UserTable() {
  for (UserIndex index = 0; index < slots_; ++index) {
    UserRecord& user = at(index);
    if (user.form == Form::kGroup) delete_group(user);
    if (user.form != Form::kFree && user.uid_size > UserRecord::kInlineUidBytes) {
      delete[] user.uid_heap;
    }
  }
}

UserIndex UserTable::find(std::string_view uid) const noexcept {
  const Probe probe{uid, hash(uid)};
  const Set& part = parts_[part_of(probe.hash)];
  const auto found = part.find(probe);
  return found == part.end() ? kNobody : *found;
}

bool UserTable::holds(UserIndex index, std::uint32_t generation) const noexcept {
  if (index >= slots_) return false;
  const UserRecord& user = at(index);
  return user.form != Form::kFree && user.generation == generation;
}

UserIndex UserTable::create(std::string_view uid) {
  PULSEWHEEL_CHECK(uid.size() <= 0xff);
  if (free_head_ == kNobody) add_chunk();
  const UserIndex index = free_head_;
  UserRecord& user = at(index);
  const bool on_heap = uid.size() > UserRecord::kInlineUidBytes;
  std::unique_ptr<char[]> heap_uid = on_heap ? std::make_unique<char[]>(uid.size()) : nullptr;

  char* bytes = on_heap ? heap_uid.get() : user.uid_bytes.data();
  std::copy(uid.begin(), uid.end(), bytes);
  if (on_heap) user.uid_heap = bytes;
  user.uid_size = static_cast<std::uint8_t>(uid.size());
  parts_[part_of(hash(uid))].insert(index);  // throws with the slot still in the free list

  static_cast<void>(heap_uid.release());
  free_head_ = user.next_free;
  // 0 stands for nobody in a UserRef. A stale one would need four thousand million reuses of its
  // slot to be taken for a new one.
  if (++user.generation == 0) user.generation = 1;
  user.since = user.last_seen = MonoTime::min();
  user.has_edge = false;
  enqueue(index);
  return index;
}

void UserTable::forget(UserIndex index) noexcept {
  UserRecord& user = at(index);
  PULSEWHEEL_CHECK(user.form == Form::kOffline);
  const Probe probe{user.uid(), hash(user.uid())};
  Set& part = parts_[part_of(probe.hash)];
  part.erase(part.find(probe));
  dequeue(index);
  if (user.uid_size > UserRecord::kInlineUidBytes) delete[] user.uid_heap;
  user.form = Form::kFree;
  user.next_free = free_head_;
  free_head_ = index;
}

void UserTable::set_online(UserIndex index, const SessionRecord& plain) noexcept {
  UserRecord& user = at(index);
  PULSEWHEEL_CHECK(user.form == Form::kOffline && plain.plain());
  dequeue(index);
  set_plain(user, plain);
}

void UserTable::set_online(UserIndex index, std::unique_ptr<SessionGroup> group) noexcept {
  UserRecord& user = at(index);
  PULSEWHEEL_CHECK(user.form == Form::kOffline && group->user == index);
  dequeue(index);
  user.group = group.release();
  user.form = Form::kGroup;
}

void UserTable::set_offline(UserIndex index) noexcept {
  UserRecord& user = at(index);
  PULSEWHEEL_CHECK(user.online());
  if (user.form == Form::kGroup) delete_group(user);
  enqueue(index);
}

SessionGroup& UserTable::expand(UserIndex index) {
  UserRecord& user = at(index);
  PULSEWHEEL_CHECK(user.online());
  if (user.form == Form::kPlain) {
    SessionRecord session;
    session.session = user.plain_ref();
    session.id = user.plain.id;
    session.login_at = session.last_packet = user.plain.login_at;
    user.group = std::make_unique<SessionGroup>(index, std::move(session)).release();
    user.form = Form::kGroup;
  }
  return *user.group;
}

void UserTable::compact(UserIndex index) noexcept {
  UserRecord& user = at(index);
  if (user.form != Form::kGroup || user.group->sessions.size() != 1) return;
  if (!user.group->sessions.front().plain()) return;
  const SessionRecord session = std::move(user.group->sessions.front());
  delete_group(user);
  set_plain(user, session);
}

void UserTable::set_plain(UserRecord& user, const SessionRecord& session) noexcept {
  const SessionRef ref = session.session;
  std::construct_at(&user.plain,
                    PlainSession{session.id, session.login_at, ref.index, ref.generation});
  user.plain_shard = ref.shard;
  user.form = Form::kPlain;
}

void UserTable::delete_group(UserRecord& user) noexcept {
  wheel_.cancel(*user.group);  // the wheel counts what is armed, so not left to the destructor
  delete user.group;
}

void UserTable::add_chunk() {
  PULSEWHEEL_CHECK(slots_ <= kNobody - kChunkUsers);
  chunks_.push_back(std::make_unique<UserRecord[]>(kChunkUsers));
  slots_ += kChunkUsers;
  // Linked from the back, so that slots are given out in order.
  for (UserIndex index = slots_; index-- > slots_ - kChunkUsers;) {
    at(index).next_free = free_head_;
    free_head_ = index;
  }
}

void UserTable::enqueue(UserIndex index) noexcept {
  UserRecord& user = at(index);
  user.form = Form::kOffline;
  user.queue = {queue_tail_, kNobody};
  if (queue_tail_ == kNobody) {
    queue_head_ = index;
  } else {
    at(queue_tail_).queue.next = index;
  }
  queue_tail_ = index;
  ++queue_size_;
}

void UserTable::dequeue(UserIndex index) noexcept {
  const auto [previous, next] = at(index).queue;
  (previous == kNobody ? queue_head_ : at(previous).queue.next) = next;
  (next == kNobody ? queue_tail_ : at(next).queue.previous) = previous;
  --queue_size_;
}

}  // namespace pulsewheel
