// What the daemon reports about itself and its users, ready for output. Times are Unix
// milliseconds, ids and labels raw bytes: they are encoded where they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel {

/// One session of a user.
struct SessionReport {
  std::uint64_t id = 0;
  std::uint32_t shard = 0;
  std::string device;
  bool lingering = false;
  std::int64_t login_at_ms = 0;
  std::int64_t last_seen_ms = 0;
  std::int64_t deadline_ms = 0;
  std::uint32_t timeout_ms = 0;
};

struct UserReport {
  std::string state;  // "online", "offline", "unknown"
  std::optional<std::int64_t> since_ms;
  std::optional<std::int64_t> last_seen_ms;
  std::vector<SessionReport> sessions;
};

/// One user of many.
struct UserLine {
  std::string uid;
  std::string_view state;  // a literal, as in UserReport
  std::optional<std::int64_t> since_ms;
  std::optional<std::int64_t> last_seen_ms;
  std::size_t sessions = 0;          // lingering ones included
  std::vector<std::string> devices;  // their labels; a session without one adds none
};

struct UserPage {
  std::vector<UserLine> users;
  std::string next_cursor;  // empty: that was the last page
};

/// What a kick did.
struct KickReport {
  bool was_online = false;
  std::size_t kicked_sessions = 0;  // live ones; 0 for a user who only lingered
};

/// A user's expiry is paused.
struct HoldInfo {
  std::int64_t since_ms = 0;
  std::int64_t until_ms = 0;
};

/// What a hold did.
struct HoldReport {
  enum class Verdict : std::uint8_t { kHeld, kNotOnline, kTooMany };

  Verdict verdict = Verdict::kNotOnline;
  HoldInfo hold;  // kHeld
};

/// What a release did.
struct ReleaseReport {
  bool was_held = false;
  std::int64_t held_ms = 0;
};

/// What a drain begins with.
struct DrainReport {
  std::uint64_t connections = 0;
  std::int64_t window_ms = 0;
};

/// What a reload found.
struct ReloadReport {
  /// Texts as they stand in the configuration.
  struct Change {
    std::string key;
    std::string before;
    std::string after;
  };
  std::vector<std::string> problems;  // empty: it was taken
  std::vector<Change> changed;
  std::vector<Change> needs_restart;  // these stay as they were
};

/// A slot of a shard's wheel.
struct WheelSlot {
  std::size_t level = 0;
  std::size_t slot = 0;
};

/// A change of a user's state.
struct EdgeReport {
  std::optional<std::uint64_t> seq;  // nullopt: the edge itself is forgotten, and not what it did
  std::string_view kind;             // "online", "offline"
  std::string_view reason;           // "login", "timeout", ...
  std::int64_t at_ms = 0;
  std::optional<std::int64_t> last_seen_ms;
};

/// All about one session.
struct SessionExplanation {
  SessionReport session;
  std::string address;             // "192.0.2.1:4711"; empty: no connection any more
  std::int64_t packet_age_ms = 0;  // since the last packet
  std::int64_t remaining_ms = 0;   // until the deadline, while held from the release on
  std::optional<WheelSlot> wheel;  // where the deadline waits; nullopt: it is being handled
};

/// All about one user.
struct Explanation {
  UserReport user;  // its sessions are below
  std::uint32_t home_shard = 0;
  std::int64_t now_ms = 0;
  std::optional<HoldInfo> hold;
  std::vector<SessionExplanation> sessions;
  std::vector<EdgeReport> edges;  // the newest first; those that are still known
};

/// One sentence: why the user is what it is, and what happens next.
[[nodiscard]] std::string summary_of(const Explanation& explanation);

/// A shard's wheel, slot by slot.
struct WheelReport {
  struct Level {
    std::uint64_t ticks_per_slot = 1;
    std::size_t hand = 0;             // the slot at which it stands
    std::vector<std::size_t> counts;  // of deadlines, by slot
  };
  struct OfShard {
    std::uint32_t shard = 0;
    std::uint64_t tick = 0;        // where the hand stands
    std::uint64_t clock_tick = 0;  // that has begun; the hand catches up when something is due
    std::size_t armed = 0;
    std::vector<Level> levels;
  };
  double tick_s = 1;
  std::vector<OfShard> shards;
};

}  // namespace pulsewheel
