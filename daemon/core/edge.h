// Edge: one change of a user's state, and the batch in which a shard hands them on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/time.h"

namespace pulsewheel {

enum class EdgeKind : std::uint8_t { kOnline, kOffline };

/// Why a user's state changed. Append only: the names are in logs and metrics.
enum class EdgeReason : std::uint8_t {
  kLogin,       // the first session of the user
  kTimeout,     // the last session fell silent
  kLogout,      // the last session said goodbye
  kDisconnect,  // the last connection closed, and its linger (if any) ran out
  kKicked,      // an operator ended the user's sessions
  kShutdown,    // the node stopped without keeping a snapshot
};

inline constexpr std::size_t kEdgeReasonCount = 6;

[[nodiscard]] std::string_view to_string(EdgeKind kind) noexcept;      // "online", "offline"
[[nodiscard]] std::string_view to_string(EdgeReason reason) noexcept;  // "login", "timeout", ...

/// Of a user whom no node held, and whose packets others have seen.
inline constexpr MonoTime kLastSeenUnknown = MonoTime::min();

/// As a shard decides it; epoch and seq are given by the sequencer behind the shards.
struct Edge {
  std::string_view uid;  // points into the batch
  MonoTime at;           // when it was decided
  MonoTime last_seen;    // the user's last packet, or kLastSeenUnknown
  MonoTime due;          // the deadline that ran out (kTimeout, lingering kDisconnect), else `at`
  std::uint32_t sessions = 0;  // of the user after the change, lingering ones not counted
  EdgeKind kind = EdgeKind::kOnline;
  EdgeReason reason = EdgeReason::kLogin;
};

/// Edges in the order in which they were decided, with their uids in one buffer: 16-byte uids
/// cost 64 B an edge and no allocation of their own. Moved from the shard to the sequencer.
class EdgeBatch {
 public:
  /// Takes the memory for so many edges with so many bytes of uids in all, and touches it, so that
  /// no page of it is missing later. For an empty batch.
  void reserve(std::size_t edges, std::size_t uid_bytes);
  /// Copies `edge` and its uid. Amortised O(uid length).
  void push(const Edge& edge);

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  /// Edge number `i`; its uid is valid until the batch is changed.
  [[nodiscard]] Edge at(std::size_t i) const noexcept;
  void clear() noexcept;  // keeps the memory

 private:
  struct Record {
    MonoTime at, last_seen, due;
    std::uint32_t uid_offset;
    std::uint32_t sessions;
    std::uint8_t uid_size;
    EdgeKind kind;
    EdgeReason reason;
  };
  std::vector<Record> records_;
  std::string uids_;
};

}  // namespace pulsewheel
