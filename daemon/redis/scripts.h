// The scripts that change presence in Redis, each atomic, and the calls of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "daemon/redis/redis_client.h"
#include "daemon/redis/redis_script.h"
#include "daemon/redis/ring_layout.h"

namespace pulsewheel {

/// Users in one call of a batch script. Such a call takes redis-server about 2 ms, in which it
/// serves nobody else: 256 users who all change their slot, of 100,000 in the ring (7 us each).
inline constexpr std::size_t kRingBatchMax = 256;

/// A call of a script, for RedisClient::eval(). Owns its words.
struct RingCall {
  const RedisScript* script = nullptr;
  std::vector<std::string> keys;
  std::vector<std::string> args;
  bool in_its_turn = false;  // or not at all: for RedisClient::eval_in_turn()
};

/// RedisClient::eval() or eval_in_turn() of it. `call` needs to live for this call only.
[[nodiscard]] std::error_code call(RedisClient& client, const RingCall& call,
                                   RedisCallback callback);

struct RingMove {
  std::string_view uid;
  std::chrono::milliseconds remaining{0};  // until the deadline; Redis' clock makes a time of it
};
struct RingAdd {
  std::string_view uid;
  std::chrono::milliseconds remaining{0};
  std::string_view reason;  // of the edge
};
struct RingRemove {
  std::string_view uid;
  std::string_view reason;
};

/// What a script did with a user: the integers of its reply, in the order of the call.
enum class RingOutcome : std::int64_t {
  kMoved = 0,        // move, add: the user was in the ring
  kAdded = 1,        // move, add: was not; add has written an online edge
  kRemoved = 2,      // remove: is out of the ring, and the stream has the offline edge
  kNotOurs = 3,      // remove: this node did not hold the user, and has changed nothing
  kHeldByOther = 4,  // remove: another live node holds the user, who stays
  kRefreshed = 5,    // remove: somebody who is no node has moved the user, who stays
  kGone = 6,         // remove: held by us, but not in the ring any more: no edge
  kNoLease = 7,      // move_by_lease: this node has no lease; nothing was changed, for all users
};

/// What claim() answers.
struct RingClaim {
  bool work_left = false;             // call again at once
  std::chrono::milliseconds late{0};  // from the begin of the second whose slot was read; 0 too
                                      // when there was none to read
  std::chrono::milliseconds now{0};   // Redis' unix time
  std::size_t refiled = 0;            // members who stay in the ring
  std::vector<std::string> uids;      // who are offline now: this call has written their edges

  /// nullopt: not an answer of claim().
  [[nodiscard]] static std::optional<RingClaim> parse(const RedisReply& reply);
};

/// The calls for one node. Every batch script first checks that the ring has as many slots as the
/// layout and that each key is of its type; else it changes nothing and answers an error
/// (RINGLENGTH, WRONGTYPE). It then leaves each user of the batch in exactly one slot, the one that
/// the index names. A uid twice in one batch counts once, with its last values. Immutable; any
/// thread.
class RingScripts {
 public:
  /// `stream_entries_max`: about how many edges the stream keeps. Requires a valid name of the
  /// node.
  RingScripts(RingLayout layout, RingNode node, std::uint64_t stream_entries_max);

  [[nodiscard]] const RingLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const RingNode& node() const noexcept { return node_; }

  /// Creates the ring where there is none. Answers the slots' names: check them with
  /// RingLayout::problem_of().
  [[nodiscard]] RingCall create_ring() const;

  // At most kRingBatchMax users each. Answer an array of RingOutcome.

  /// Files users by their deadlines and makes this node an owner of them; no edges. Among several
  /// owners the later deadline holds.
  [[nodiscard]] RingCall move(std::span<const RingMove> users) const;
  /// The same where others take a node without a lease for gone, and its users out of the ring,
  /// with an edge: a move that was decided before and comes late must not bring these back without
  /// one. It is carried out in its turn, and only while this node holds its lease.
  [[nodiscard]] RingCall move_by_lease(std::span<const RingMove> users) const;
  /// The same, with an online edge for each who was not in the ring.
  [[nodiscard]] RingCall add(std::span<const RingAdd> users) const;
  /// Takes this node off the users' owners, also as what an earlier life of it has left. When no
  /// live node is left, and the slot is still the one of the deadline in the ring, the user leaves
  /// it with an offline edge.
  [[nodiscard]] RingCall remove(std::span<const RingRemove> users) const;

  /// Moves the ring's hand, by one slot at most, and takes those out of the ring, each with one
  /// offline edge, whose time is over and whom no live node holds. Looks at about `members` (1 to
  /// kRingBatchMax) of the slot; answers a RingClaim. Any number of nodes may call it: each user is
  /// claimed once, whoever comes first.
  ///
  /// A user's time is over when the deadline has passed, or, for one without a deadline, when the
  /// hand reads the slot in the very second that it stands for. A deadline counts only while the
  /// user is in its slot: else somebody has moved the user who knows no deadlines, and the user is
  /// one without.
  ///
  /// Late, never early: where a slot's second is over when it is read, and for a lap after such a
  /// slot or after a jump of Redis' TIME, users without a deadline get kUnownedLife from now. Whom
  /// a live node holds comes round again each second until that node has moved or removed them.
  [[nodiscard]] RingCall claim(std::size_t members = kRingBatchMax) const;

  /// Takes those users out of a slot whom this node holds and whose index names another one: what a
  /// script that failed half-way has left. At most kRingBatchMax; answers how many it were.
  [[nodiscard]] RingCall unfile(std::string_view slot,
                                std::span<const std::string_view> uids) const;

  /// Takes or refreshes this node's lease for `length`. Answers the epoch that holds it: another
  /// than ours is another process of this name.
  [[nodiscard]] RingCall lease(std::chrono::milliseconds length) const;
  /// Gives the lease up, if it is ours. Answers 1 or 0.
  [[nodiscard]] RingCall release() const;

 private:
  [[nodiscard]] RingCall batch(const RedisScript& script, std::size_t words) const;
  [[nodiscard]] RingCall move_with(const RedisScript& script,
                                   std::span<const RingMove> users) const;

  RingLayout layout_;
  RingNode node_;
  std::string stream_entries_max_;
};

}  // namespace pulsewheel
