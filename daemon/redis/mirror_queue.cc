#include "daemon/redis/mirror_queue.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "daemon/redis/ring_layout.h"

namespace pulsewheel {
namespace {

/// Of a change beside the uid's own bytes: its node, and the user's entry with its share of the
/// table.
constexpr std::size_t kChangeBytes =
    sizeof(MirrorChange) + 2 * sizeof(void*) +
    sizeof(std::unordered_map<std::string_view, void*>::value_type) + 3 * sizeof(void*);

}  // namespace

MirrorQueue::MirrorQueue(const Options& options) : options_(options) {}

bool MirrorQueue::add(std::string_view uid, EdgeReason reason, MonoTime deadline,
                      MonoTime handed_over) {
  // A move that waits was for a user who was online before: with an edge missing in between (one
  // was lost), the user's state is all that can be told.
  if (MirrorChange* const last = last_of(uid);
      last != nullptr && last->kind != MirrorChange::Kind::kRemove) {
    last->kind = MirrorChange::Kind::kAdd;
    last->reason = reason;
    last->deadline = deadline;
    return true;
  }
  return append({.uid = std::string(uid),
                 .kind = MirrorChange::Kind::kAdd,
                 .reason = reason,
                 .deadline = deadline,
                 .handed_over = handed_over});
}

bool MirrorQueue::move(std::string_view uid, MonoTime deadline, MonoTime handed_over) {
  if (MirrorChange* const last = last_of(uid);
      last != nullptr && last->kind != MirrorChange::Kind::kRemove) {
    last->deadline = deadline;
    return true;
  }
  return append({.uid = std::string(uid),
                 .kind = MirrorChange::Kind::kMove,
                 .deadline = deadline,
                 .handed_over = handed_over});
}

bool MirrorQueue::remove(std::string_view uid, EdgeReason reason, MonoTime handed_over) {
  if (MirrorChange* const last = last_of(uid);
      last != nullptr && last->kind != MirrorChange::Kind::kAdd) {
    last->kind = MirrorChange::Kind::kRemove;
    last->reason = reason;
    return true;
  }
  return append({.uid = std::string(uid),
                 .kind = MirrorChange::Kind::kRemove,
                 .reason = reason,
                 .deadline = {},
                 .handed_over = handed_over});
}

std::vector<MirrorChange> MirrorQueue::take(std::size_t changes_max) {
  std::vector<MirrorChange> taken;
  taken.reserve(std::min(changes_max, changes_.size()));  // which never moves the uids in it
  std::unordered_set<std::string_view> users;
  auto change = changes_.begin();
  for (std::size_t looks = changes_max * kLooksPerChange;
       looks > 0 && taken.size() < changes_max && change != changes_.end(); --looks) {
    const auto current = change++;
    if (users.contains(current->uid)) continue;
    bytes_ -= bytes_of(current->uid);
    if (const auto last = last_.find(current->uid); last->second == current) last_.erase(last);
    taken.push_back(std::move(*current));
    users.insert(taken.back().uid);
    changes_.erase(current);
  }
  return taken;
}

void MirrorQueue::give_back(MirrorChange&& change) {
  bytes_ += bytes_of(change.uid);
  changes_.push_front(std::move(change));
  last_.try_emplace(changes_.front().uid, changes_.begin());
}

std::size_t MirrorQueue::room() const noexcept {
  const auto left = [](std::size_t bound, std::size_t used) {
    return bound - std::min(bound, used);
  };
  return std::min(left(options_.changes_max, changes_.size()),
                  left(options_.bytes_max, bytes_) / (kChangeBytes + kRingUidBytesMax));
}

std::size_t MirrorQueue::bytes_of(std::string_view uid) noexcept {
  return kChangeBytes + uid.size();
}

MirrorChange* MirrorQueue::last_of(std::string_view uid) noexcept {
  const auto last = last_.find(uid);
  return last == last_.end() ? nullptr : &*last->second;
}

bool MirrorQueue::append(MirrorChange&& change) {
  const std::size_t bytes = bytes_of(change.uid);
  if (changes_.size() >= options_.changes_max || bytes_ + bytes > options_.bytes_max) return false;
  changes_.push_back(std::move(change));
  const auto added = std::prev(changes_.end());
  last_.erase(added->uid);  // its key lies in an older change, which goes first
  last_.emplace(added->uid, added);
  bytes_ += bytes;
  return true;
}

}  // namespace pulsewheel
