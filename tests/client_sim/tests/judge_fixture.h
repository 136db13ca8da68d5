// What the judge's tests share: the life of a client in words.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "tests/client_sim/judge.h"
#include "tests/client_sim/tests/judge_times.h"

namespace pulsewheel::sim {

/// Session s is one of user s / sessions_per_user.
class JudgeFixture : public testing::Test {
 protected:
  using Kind = ObservedEdge::Kind;

  JudgeFixture(const JudgeRules& rules, std::uint32_t users, std::uint32_t sessions_per_user)
      : judge(rules, users, sessions_per_user), sessions_per_user_(sessions_per_user) {}

  void log_in(Duration t, std::uint32_t session = 0, Duration timeout = kTimeout) {
    judge.login_sent(session, sent(t));
    judge.login_accepted(session, at(t + std::chrono::milliseconds{3}), timeout);
  }
  void see(Kind kind, Duration t, std::uint32_t user = 0) {
    judge.edge(user, {kind, kind == Kind::kOnline ? Reason::kLogin : Reason::kTimeout, at(t)});
  }
  void see_offline(Reason reason, Duration t) { judge.edge(0, {Kind::kOffline, reason, at(t)}); }
  void log_in_and_see_online(Duration t, std::uint32_t session = 0) {
    log_in(t, session);
    see(Kind::kOnline, t + std::chrono::milliseconds{5}, session / sessions_per_user_);
  }
  void keep_alive(Duration t, std::uint32_t session = 0) { judge.packet_sent(session, sent(t)); }

  Judge judge;

 private:
  const std::uint32_t sessions_per_user_;
};

/// Rules of the tests: tick 1 s, slack 250 ms, grace 1 s, so an edge is late after T + 1.25 s and
/// missed after T + 2.25 s.
class JudgeTest : public JudgeFixture {
 protected:
  JudgeTest() : JudgeFixture(JudgeRules{}, /*users=*/4, /*sessions_per_user=*/2) {}
};

}  // namespace pulsewheel::sim
