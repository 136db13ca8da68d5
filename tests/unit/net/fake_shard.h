// FakeShard: what a shard gives its sessions, in a test's hands. The sockets, the slab and the
// wheel are real; time passes when the test says so.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/net/session.h"
#include "daemon/net/session_slab.h"
#include "daemon/net/shard_context.h"

namespace pulsewheel {

/// How long any wait for the kernel or the loop may take before the test fails.
inline constexpr Duration kPatience = std::chrono::seconds{20};

/// Single-threaded: the loop runs inside the functions that wait. Its end closes what is open and
/// expects that every session was destroyed, and that the gauges are back to 0.
class FakeShard final : public SessionHost {
 public:
  explicit FakeShard(const SessionOptions& session_options = {});
  ~FakeShard();
  FakeShard(const FakeShard&) = delete;
  FakeShard& operator=(const FakeShard&) = delete;

  /// A LOGIN that a session submitted, and nobody has decided yet.
  struct Submission {
    std::string uid;
    std::string device;
    SessionRef session;
    MonoTime at;
    LoginTerms terms;
  };

  /// A session on `descriptor`, a connected socket, started. Owns the descriptor.
  SessionRef adopt(int descriptor, MonoTime accepted);

  /// The session that `ref` names; throws std::runtime_error when it is gone.
  [[nodiscard]] Session& session(SessionRef ref);
  [[nodiscard]] bool is_gone(SessionRef ref) { return slab.find(ref) == nullptr; }

  /// Decides the oldest submission, waiting for it first, and returns it. Accepted ones get the
  /// user {1, 1, 0} and the session id 0x0102030405060708.
  Submission accept_login(bool took_over = false);
  Submission refuse_login(LoginVerdict verdict);

  /// Runs the loop until `condition` holds; throws std::runtime_error when it never does.
  void run_until(const std::function<bool()>& condition);
  /// Runs what is ready, until nothing is. Returns the number of handlers.
  std::size_t run_ready();

  /// Time reaches `now`: the wheel advances, and the sessions whose deadline has come are told.
  /// Returns how many were.
  std::size_t reach(MonoTime now);
  /// When the tick begins in which `deadline` is handled.
  [[nodiscard]] MonoTime due(MonoTime deadline) const noexcept {
    return context.clock.begin_of(context.clock.ceil(deadline));
  }
  /// Dismisses what close_later() has collected.
  void dismiss_all();

  // SessionHost.
  void submit_login(const LoginSubmission& login) override;
  void session_ended(const SessionEnd& end) override;
  void close_later(Session& session) override;
  void destroy(Session& session) noexcept override;
  void report_refusal(const Session& session, proto::ErrorCode code) noexcept override;

  SessionOptions options;
  /// Accepts each LOGIN as soon as its session allows.
  bool accepts_at_once = false;

  std::vector<Submission> submissions;
  std::vector<SessionEnd> ends;
  std::vector<SessionPtr> closing;
  std::vector<proto::ErrorCode> refusals;
  std::size_t created = 0;
  std::size_t destroyed = 0;

  SessionCounters counters;
  TimeWheel wheel;
  ShardContext context;
  SessionSlab slab;
  boost::asio::io_context io{1};

 private:
  Submission decide(const LoginDecision& decision);
};

[[nodiscard]] inline std::uint64_t closes(const FakeShard& shard, CloseReason reason) {
  return shard.counters.closes[static_cast<std::size_t>(reason)].value();
}
/// Over all reasons.
[[nodiscard]] std::uint64_t closes(const FakeShard& shard);

}  // namespace pulsewheel
