// ShardContext: what a session needs of its shard, and the door to the users' home shards.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/ids.h"
#include "daemon/base/time.h"
#include "daemon/core/close_reason.h"
#include "daemon/core/presence_registry.h"
#include "daemon/core/session_fsm.h"
#include "daemon/core/tick.h"
#include "daemon/core/time_wheel.h"
#include "proto/frame.h"

namespace pulsewheel {

class Session;

/// What one shard's sessions are held to. Shared by all sessions of the shard.
struct SessionOptions {
  proto::Limits limits;
  TimeoutPolicy timeouts;
  Duration login_timeout{std::chrono::seconds{10}};
  /// Bytes that a session may have waiting for a peer that does not read.
  std::size_t backlog_bytes_max = std::size_t{16} * 1024;
  /// How long a backlog may make no progress: the socket takes not one byte of it.
  Duration write_timeout{std::chrono::seconds{10}};
  /// Bytes of partial long frames over all sessions of the shard: what a frame that does not fit
  /// the buffer inside the session may take from the heap.
  std::size_t spill_bytes_max = std::size_t{32} * 1024 * 1024;
  /// How long a closing session waits for the peer to read the last frame and close its side.
  Duration finish_timeout{std::chrono::seconds{2}};
  /// Base of the retry-after in a GOAWAY; up to as much again is added at random.
  Duration retry_after{std::chrono::seconds{2}};
};

/// Written by the shard's thread, read by any.
struct SessionCounters {
  Counter accepted;
  Counter logins_accepted;
  Counter logins_refused;
  Counter keepalives;
  Counter messages;
  Counter logouts;
  Counter bytes_received;
  Counter bytes_sent;
  Counter reprieves;  // deadlines put off because unread bytes lay in the socket
  std::array<Counter, kCloseReasonCount> closes;
  std::array<Counter, proto::kErrorCodes.size()> refusals;  // ERRORs sent; see refusal_index()
  Gauge sessions;                                           // open connections
  Gauge spill_bytes;                                        // heap taken by partial long frames
  Gauge backlog_bytes;                                      // waiting for peers that do not read
};

/// Where SessionCounters::refusals counts `code`. Requires a code of kErrorCodes.
[[nodiscard]] inline std::size_t refusal_index(proto::ErrorCode code) noexcept {
  const auto& codes = proto::kErrorCodes;
  return static_cast<std::size_t>(std::lower_bound(codes.begin(), codes.end(), code) -
                                  codes.begin());
}

/// What was settled with a client at its LOGIN. Goes to the home shard and comes back with the
/// answer: the session has no room for it.
struct LoginTerms {
  MonoTime login_at;
  NegotiatedTimeout timeout;
  std::uint8_t version = proto::kVersionMax;

  [[nodiscard]] Duration silence_max() const noexcept {
    return std::chrono::milliseconds{timeout.timeout_ms};
  }
  /// When silence after the LOGIN is final.
  [[nodiscard]] MonoTime deadline() const noexcept { return login_at + silence_max(); }
};

/// A LOGIN on its way to the home shard of its uid. The views live for the call only.
struct LoginSubmission {
  LoginRequest request;
  LoginTerms terms;
};

/// What a session asks of its shard. Called on the shard's thread. Where memory runs out a function
/// without noexcept throws std::bad_alloc, and nothing has happened: the session copes.
class SessionHost {
 public:
  /// Asks the home shard; Session::on_login_decided() follows, never before this returns. The login
  /// is refused if it throws.
  virtual void submit_login(const LoginSubmission& login) = 0;
  /// A logged-in session ended. Exactly once for each accepted login; if it throws, it is called
  /// again each tick, until it does not.
  virtual void session_ended(const SessionEnd& end) = 0;
  /// Calls Session::dismiss() soon: deciding comes first, closing is paced behind. If it throws,
  /// the session dismisses itself.
  virtual void close_later(Session& session) = 0;
  /// The last reference is gone: the session's memory may be given out again.
  virtual void destroy(Session& session) noexcept = 0;
  /// A peer broke the protocol: for one rate-limited log line.
  virtual void report_refusal(const Session& session, proto::ErrorCode code) noexcept = 0;

 protected:
  ~SessionHost() = default;
};

/// The slots of the sessions that had packets since their home shards last heard of them. Keeps
/// nothing until it is given room, and allocates nothing after: a keepalive costs a bit more then.
class TouchedSessions {
 public:
  /// Room for all slots below `slots`. Amortised O(growth).
  void make_room(std::size_t slots) {
    if (slots <= marked_.size()) return;
    slots = std::max(slots, 2 * marked_.size());
    slots_.reserve(slots);
    marked_.resize(slots);
  }
  void add(std::uint32_t slot) noexcept {
    if (slot >= marked_.size() || marked_[slot]) return;
    marked_[slot] = true;
    slots_.push_back(slot);
  }
  [[nodiscard]] bool empty() const noexcept { return slots_.empty(); }
  /// Calls `visit(slot)` for each, and keeps none.
  template <class Visit>
  void drain(Visit visit) {
    for (const std::uint32_t slot : slots_) {
      marked_[slot] = false;
      visit(slot);
    }
    slots_.clear();
  }

 private:
  std::vector<std::uint32_t> slots_;  // each once, so never more than there is room for
  std::vector<bool> marked_;
};

/// Confined to the shard's thread; outlives the shard's sessions.
struct ShardContext {
  ShardIndex shard;
  const SessionOptions& options;
  TimeWheel& wheel;
  TickClock clock;
  SessionCounters& counters;
  SessionHost& host;
  std::minstd_rand jitter;
  TouchedSessions touched{};
  std::unordered_map<std::uint32_t, MonoTime> held_since{};  // of sessions that are held, by slot
  MonoTime round_began{};  // of the loop round that runs; the epoch: no round is open

  /// The time, for a packet that has just been read. Opens the round when nothing has yet.
  [[nodiscard]] MonoTime stamp() noexcept {
    const MonoTime now = MonoClock::now();
    if (round_began == MonoTime{}) round_began = now;
    return now;
  }

  /// For a GOAWAY: the configured time, and up to as much again.
  [[nodiscard]] std::uint32_t retry_after_ms() noexcept {
    using std::chrono::milliseconds;
    const auto ms = static_cast<std::uint32_t>(
        std::chrono::duration_cast<milliseconds>(options.retry_after).count());
    return ms + static_cast<std::uint32_t>(jitter()) % (ms + 1);
  }
};

}  // namespace pulsewheel
