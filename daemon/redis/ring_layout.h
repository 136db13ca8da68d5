// RingLayout: how presence lies in Redis: key names, slots, and which deadline goes where.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel {

/// The keys' names. The first three are those of the documented PHP design, by which other programs
/// find their way; the rest is ours, under a prefix. All may carry one hash tag: "{ring}:slots".
struct RingNames {
  std::string ring = "testlist";         // LIST of the slots' names, in order
  std::string slot_prefix = "slot-";     // SET per slot: who expires when the hand reaches it
  std::string index = "timeline-index";  // HASH uid -> name of the slot that holds it
  std::string prefix = "pulsewheel:";    // of the keys below

  [[nodiscard]] std::string deadlines() const {
    return prefix + "deadline";
  }  // HASH uid -> unix ms
  [[nodiscard]] std::string owners() const {
    return prefix + "owners";
  }  // HASH uid -> node:epoch,...
  [[nodiscard]] std::string events() const { return prefix + "events"; }  // STREAM of edges
  /// HASH: `second`, the last one whose slot was read; `cursor`, where reading the next one goes
  /// on; `careful_until`, the second until which a slot alone proves no deadline.
  [[nodiscard]] std::string hand() const { return prefix + "hand"; }
  [[nodiscard]] std::string node_prefix() const { return prefix + "node:"; }
  [[nodiscard]] std::string node(std::string_view name) const {  // a node's lease: its epoch
    return node_prefix() + std::string(name);
  }
};

/// Of a user of ours, as in the protocol: a longer one comes from somebody else.
inline constexpr std::size_t kRingUidBytesMax = 128;

/// A node in `owners`: "NAME:EPOCH".
struct RingNode {
  static constexpr std::size_t kNameBytesMax = 64;

  std::string name;  // see is_valid_name()
  std::uint64_t epoch = 0;

  /// Letters, digits, '.', '_' and '-', 1 to kNameBytesMax of them: names are joined by ',' and
  /// ':'.
  [[nodiscard]] static bool is_valid_name(std::string_view name) noexcept;
  [[nodiscard]] std::string tag() const { return name + ":" + std::to_string(epoch); }
};

/// Immutable and pure; any thread.
///
/// The hand reads slot n of R at every unix second that is n modulo R. A user whose deadline falls
/// into second s is due when the hand reads slot (s + 1) mod R: never early, at most a second late.
/// R slots hold deadlines up to R - 2 s ahead: one slot is being read, and a deadline may lie a
/// whole second behind its second's begin. A later one is filed at R - 2 s, and its owner files it
/// again before that.
class RingLayout {
 public:
  static constexpr std::size_t kSlotsDefault = 32;
  /// The documented list, 0 to 30. Its last slot is R - 2 = 29 s ahead: to a reader that looks at
  /// no deadline, a timeout of 30 s ends a second early.
  static constexpr std::size_t kSlotsDocumented = 31;

  /// How long a user lives in the ring whom no node holds and who has no deadline.
  static constexpr std::chrono::milliseconds kUnownedLife{30'000};

  /// Throws std::invalid_argument unless `slots` is one of the two sizes, and the names differ.
  explicit RingLayout(RingNames names = {}, std::size_t slots = kSlotsDefault);

  [[nodiscard]] const RingNames& names() const noexcept { return names_; }
  [[nodiscard]] std::size_t slots() const noexcept { return slots_; }

  /// The slots' names of a ring that we create: prefix and position.
  [[nodiscard]] std::vector<std::string> default_slot_names() const;

  /// What makes a list found in Redis unusable as the ring: another length, a name twice, a name
  /// that is another of our keys, an empty one. One sentence for the log; nullopt when it can be
  /// used as it is, whatever its names and their order.
  [[nodiscard]] std::optional<std::string> problem_of(const std::vector<std::string>& found) const;
  /// One sentence, for a list that can be used with a loss of precision.
  [[nodiscard]] std::optional<std::string> warning() const;

  /// The furthest from now that a deadline is filed.
  [[nodiscard]] std::chrono::milliseconds span() const noexcept {
    return std::chrono::seconds{slots_ - 2};
  }
  /// When a user is due in the ring who has `remaining` left at `now` (Redis' unix time).
  [[nodiscard]] std::chrono::milliseconds deadline(
      std::chrono::milliseconds now, std::chrono::milliseconds remaining) const noexcept;
  /// Position of the slot for a deadline (unix time).
  [[nodiscard]] std::size_t slot_of(std::chrono::milliseconds deadline) const noexcept;

 private:
  RingNames names_;
  std::size_t slots_;
};

}  // namespace pulsewheel
