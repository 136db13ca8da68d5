// SessionSlab: the memory of one shard's sessions, and how a SessionRef finds its session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/net/session.h"

namespace pulsewheel {

/// Sessions at stable addresses in chunks that are never given back: a shard that held n sessions
/// keeps the room for n. Confined to its shard's thread. Must outlive the io_context that the
/// sessions' operations are pending on, or that one must be drained first.
class SessionSlab {
 public:
  SessionSlab() = default;
  ~SessionSlab();
  SessionSlab(const SessionSlab&) = delete;
  SessionSlab& operator=(const SessionSlab&) = delete;

  /// A session in a free slot. O(1), and an allocation each kChunkSize sessions of growth.
  /// Throws std::bad_alloc; `socket` is left to the caller then, and nothing has changed.
  Session& create(ShardContext& shard, ShardSocket&& socket, MonoTime accepted);

  /// Destroys the session; its slot may be given out again, with another generation. O(1).
  void destroy(Session& session) noexcept;

  /// Null when the session that `ref` names is gone. O(1).
  [[nodiscard]] Session* find(SessionRef ref) noexcept;

  /// The session in slot `index`, for walks; null when there is none. Requires index < slots().
  [[nodiscard]] Session* at(std::uint32_t index) noexcept;
  [[nodiscard]] std::uint32_t slots() const noexcept {
    return static_cast<std::uint32_t>(generations_.size());
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  static constexpr std::size_t kChunkSize = 128;  // sessions: 42 KiB

 private:
  struct Slot {
    alignas(Session) std::byte bytes[sizeof(Session)];
  };

  void add_slot();
  [[nodiscard]] std::byte* memory(std::uint32_t index) noexcept;

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<std::uint32_t> generations_;  // odd while a session lives in the slot
  std::vector<std::uint32_t> free_;
  std::size_t size_ = 0;
};

}  // namespace pulsewheel
