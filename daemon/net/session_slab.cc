#include "daemon/net/session_slab.h"

#include <algorithm>
#include <new>

#include "daemon/base/check.h"

namespace pulsewheel {

SessionSlab::~SessionSlab() {
  PULSEWHEEL_CHECK(size_ == 0);
}

std::byte* SessionSlab::memory(std::uint32_t index) noexcept {
  return chunks_[index / kChunkSize][index % kChunkSize].bytes;
}

Session& SessionSlab::create(ShardContext& shard, ShardSocket&& socket, MonoTime accepted) {
  if (free_.empty()) add_slot();
  const std::uint32_t index = free_.back();
  free_.pop_back();
  const std::uint32_t generation = ++generations_[index];
  ++size_;
  return *::new (memory(index))
      Session(shard, std::move(socket), {index, generation, shard.shard}, accepted);
}

/// Room first, then what cannot fail: a growth for which there is no memory changes nothing.
void SessionSlab::add_slot() {
  const std::uint32_t index = slots();
  if (index == generations_.capacity()) {
    generations_.reserve(std::max(kChunkSize, 2 * generations_.capacity()));
  }
  free_.reserve(generations_.capacity());  // so that destroy() never allocates
  if (index / kChunkSize == chunks_.size()) {
    chunks_.push_back(std::make_unique_for_overwrite<Slot[]>(kChunkSize));
  }
  generations_.push_back(0);
  free_.push_back(index);
}

void SessionSlab::destroy(Session& session) noexcept {
  const std::uint32_t index = session.ref().index;
  PULSEWHEEL_CHECK(at(index) == &session);
  session.~Session();
  ++generations_[index];
  --size_;
  free_.push_back(index);
}

Session* SessionSlab::find(SessionRef ref) noexcept {
  if (ref.index >= slots() || generations_[ref.index] != ref.generation) return nullptr;
  return at(ref.index);
}

Session* SessionSlab::at(std::uint32_t index) noexcept {
  if (generations_[index] % 2 == 0) return nullptr;
  return std::launder(reinterpret_cast<Session*>(memory(index)));
}

}  // namespace pulsewheel
