#include "daemon/net/session_slab.h"

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
  if (free_.empty()) {
    const auto index = slots();
    if (index % kChunkSize == 0) {
      chunks_.push_back(std::make_unique_for_overwrite<Slot[]>(kChunkSize));
    }
    generations_.push_back(0);
    free_.reserve(generations_.capacity());  // so that destroy() never allocates
    free_.push_back(index);
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  const std::uint32_t generation = ++generations_[index];
  ++size_;
  return *::new (memory(index))
      Session(shard, std::move(socket), {index, generation, shard.shard}, accepted);
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
