#include "tests/unit/net/fake_shard.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace pulsewheel {

FakeShard::FakeShard(const SessionOptions& session_options)
    : options(session_options),
      wheel(Tick{0}),
      context{.shard = 0,
              .options = options,
              .wheel = wheel,
              .clock = TickClock(MonoClock::now(), std::chrono::seconds{1}),
              .counters = counters,
              .host = *this,
              .jitter = std::minstd_rand(1)} {
  // So that sessions whose allocations fail can still report.
  ends.reserve(16);
  refusals.reserve(16);
}

FakeShard::~FakeShard() {
  closing.clear();
  for (std::uint32_t slot = 0; slot < slab.slots(); ++slot) {
    if (Session* const open = slab.at(slot)) open->abandon();
  }
  run_ready();
  EXPECT_EQ(destroyed, created);
  EXPECT_EQ(slab.size(), 0U);
  EXPECT_EQ(counters.sessions.value(), 0);
  EXPECT_EQ(counters.spill_bytes.value(), 0);
  EXPECT_EQ(counters.backlog_bytes.value(), 0);
}

SessionRef FakeShard::adopt(int descriptor, MonoTime accepted) {
  ShardSocket socket(io);
  socket.assign(boost::asio::ip::tcp::v4(), descriptor);
  Session& session = slab.create(context, std::move(socket), accepted);
  ++created;
  session.start();
  return session.ref();
}

Session& FakeShard::session(SessionRef ref) {
  Session* const found = slab.find(ref);
  if (found == nullptr) throw std::runtime_error("the session is gone");
  return *found;
}

FakeShard::Submission FakeShard::accept_login(bool took_over) {
  LoginDecision decision{
      .user = {1, 1, 0}, .session_id = 0x0102030405060708, .taken_over = std::nullopt};
  if (took_over) decision.taken_over = SessionRef{7, 7, 0};
  return decide(decision);
}

FakeShard::Submission FakeShard::refuse_login(LoginVerdict verdict) {
  return decide({.verdict = verdict, .user = {}, .session_id = 0, .taken_over = std::nullopt});
}

FakeShard::Submission FakeShard::decide(const LoginDecision& decision) {
  if (submissions.empty()) run_until([this] { return !submissions.empty(); });
  Submission submission = std::move(submissions.front());
  submissions.erase(submissions.begin());
  session(submission.session).on_login_decided(decision, submission.terms);
  return submission;
}

void FakeShard::run_until(const std::function<bool()>& condition) {
  const MonoTime give_up = MonoClock::now() + kPatience;
  while (run_ready(), !condition()) {
    if (MonoClock::now() > give_up) throw std::runtime_error("waited in vain");
    io.restart();
    io.run_one_for(std::chrono::milliseconds{1});
  }
}

std::size_t FakeShard::run_ready() {
  std::size_t handlers = 0;
  const MonoTime give_up = MonoClock::now() + kPatience;
  io.restart();
  while (io.poll_one() != 0) {
    ++handlers;
    if (MonoClock::now() > give_up) throw std::runtime_error("the loop never comes to rest");
    while (accepts_at_once && !submissions.empty())
      accept_login();
  }
  return handlers;
}

std::size_t FakeShard::reach(MonoTime now) {
  HookList expired;
  while (
      !wheel.advance(context.clock.floor(now), std::numeric_limits<std::size_t>::max(), expired)) {
  }
  std::size_t told = 0;
  for (; TimerHook* const hook = expired.pop_front(); ++told) {
    const SessionPtr session(Session::of(*hook));  // it may close itself
    session->on_deadline(now);
  }
  return told;
}

void FakeShard::dismiss_all() {
  for (const SessionPtr& session : std::exchange(closing, {}))
    session->dismiss();
}

void FakeShard::submit_login(const LoginSubmission& login) {
  const LoginRequest& request = login.request;
  submissions.push_back({std::string(request.uid), std::string(request.device), request.session,
                         request.at, login.terms});
}

void FakeShard::session_ended(const SessionEnd& end) {
  ends.push_back(end);
}

void FakeShard::close_later(Session& session) {
  closing.emplace_back(session);
}

void FakeShard::destroy(Session& session) noexcept {
  ++destroyed;
  EXPECT_EQ(slab.find(session.ref()), &session);
  slab.destroy(session);
}

void FakeShard::report_refusal(const Session& /*session*/, proto::ErrorCode code) noexcept {
  refusals.push_back(code);
}

std::uint64_t closes(const FakeShard& shard) {
  std::uint64_t sum = 0;
  for (const Counter& counter : shard.counters.closes)
    sum += counter.value();
  return sum;
}

}  // namespace pulsewheel
