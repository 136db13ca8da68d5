// What the registry costs in memory, and what it does when there is none.
#include <functional>
#include <new>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/core/presence_registry.h"
#include "tests/support/allocation_counter.h"
#include "tests/unit/core/presence_fixture.h"

namespace pulsewheel {
namespace {

using support::allocations;
using support::FailingAllocations;
using support::heap_bytes;

class PresenceRegistryMemoryTest : public PresenceFixture {
 protected:
  static constexpr std::uint32_t kUsers = 100'000;

  /// 16 bytes, as the promise says.
  static std::string uid_of(std::uint32_t number) {
    std::string uid = std::to_string(number);
    return std::string(16 - uid.size(), 'u') + uid;
  }

  void log_in_all(std::string_view device = "") {
    for (std::uint32_t i = 0; i < kUsers; ++i) {
      users_.push_back(login(uid_of(i), session(i), 0, device).user);
      drop_edges();
    }
  }

  std::vector<UserRef> users_;
};

TEST_F(PresenceRegistryMemoryTest, AUserWithOnePlainSessionCosts120BytesAtMost) {
  users_.reserve(kUsers);
  login("warm-up", session(kUsers), 0);  // the edge batch keeps its memory
  drop_edges();
  const std::int64_t before = heap_bytes();
  log_in_all();
  const double per_user = static_cast<double>(heap_bytes() - before) / kUsers;
  RecordProperty("bytes_per_user", std::to_string(per_user));
  std::cout << per_user << " B a user\n";
  EXPECT_LE(per_user, 120.0);
  EXPECT_GE(per_user, 16.0) << "not even the uid: what has been measured?";
}

TEST_F(PresenceRegistryMemoryTest, WhereNobodyMirrorsNoDeadlineIsKept) {
  users_.reserve(kUsers);
  const auto bytes_with = [this](bool track_deadlines) {
    make({.track_deadlines = track_deadlines});
    users_.clear();
    login("warm-up", session(kUsers), 0);
    drop_edges();
    const std::int64_t before = heap_bytes();
    log_in_all();
    EXPECT_EQ(registry().deadlines_changed(), track_deadlines);
    return heap_bytes() - before;
  };
  EXPECT_LE(bytes_with(false) + 24 * std::int64_t{kUsers}, bytes_with(true));
}

TEST_F(PresenceRegistryMemoryTest, AnEmptyRegistryCostsLessThan32KiB) {
  const std::int64_t before = heap_bytes();
  make();
  EXPECT_LT(heap_bytes() - before, 32 * 1024);
}

TEST_F(PresenceRegistryMemoryTest, LingeringMemoryIsGivenBackWhenTheUserReturns) {
  log_in_all();
  const std::int64_t before = heap_bytes();
  for (std::uint32_t i = 0; i < kUsers; ++i) {
    end(users_[i], session(i), CloseReason::kPeerClosed, 1, 30'000);
  }
  EXPECT_GT(heap_bytes(), before);
  for (std::uint32_t i = 0; i < kUsers; ++i)
    login(uid_of(i), session(i), 2);
  EXPECT_EQ(heap_bytes(), before);
}

TEST_F(PresenceRegistryMemoryTest, ChurnOfNewNamesReusesSlotsAndDoesNotGrow) {
  make({.offline_users_max = 100});
  const auto churn = [this](std::uint32_t first) {
    for (std::uint32_t i = first; i < first + 2'000; ++i) {
      const std::string uid = std::string(40, 'x') + std::to_string(i);
      const UserRef user = login(uid, session(i), i).user;
      end(user, session(i), CloseReason::kLogout, i, i + 30'000);
      drop_edges();
    }
  };
  churn(100'000);
  const std::int64_t before = heap_bytes();
  for (std::uint32_t round = 1; round < 50; ++round)
    churn(100'000 + 2'000 * round);
  // Only the parts of the set breathe a little.
  EXPECT_LT(heap_bytes() - before, 8 * 1024);
}

TEST_F(PresenceRegistryMemoryTest, LoginAndLogoutOfARememberedUserAllocateNothing) {
  const UserRef user = login("a-uid-of-more-than-16-bytes", session(1), 0).user;
  end(user, session(1), CloseReason::kLogout, 1, 30'000);
  drop_edges();
  const std::uint64_t before = allocations();
  login("a-uid-of-more-than-16-bytes", session(2), 2);
  end(user, session(2), CloseReason::kLogout, 3, 30'000);
  EXPECT_EQ(allocations(), before);
}

/// A step that may run out of memory: `prepare` makes a registry in which `step` has work to do.
struct OutOfMemoryCase {
  const char* name;
  std::function<void()> prepare;
  std::function<void()> step;
};

class PresenceRegistryOutOfMemoryTest : public PresenceFixture {
 protected:
  static constexpr const char* kLongUid = "alice-has-a-name-of-more-than-16-bytes";

  /// What an observer can tell.
  struct Observation {
    std::size_t online, offline, lingering, live, edges, sessions;
    PresenceState state;
    std::optional<MonoTime> since, last_seen, wakeup;
    friend bool operator==(const Observation&, const Observation&) = default;
  };
  Observation observe() {
    const UserView view = registry().find(kLongUid, at(1'000));
    std::optional<MonoTime> wakeup;
    if (const auto tick = wheel_.next_wakeup()) wakeup = clock_.begin_of(*tick);
    return {registry().online_users(),
            registry().offline_users(),
            registry().lingering_users(),
            registry().live_sessions(),
            edges_.size(),
            view.sessions.size(),
            view.state,
            view.since,
            view.last_seen,
            wakeup};
  }

  /// Runs a step that gets no more than `allocations_max` allocations.
  static bool succeeds(const std::function<void()>& step, std::uint64_t allocations_max) {
    try {
      const FailingAllocations failing(allocations_max);
      step();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  /// Lets the step fail at its first, second, ... allocation until it succeeds. After each failure
  /// nothing has changed, and the next try finds everything as before.
  void run(const OutOfMemoryCase& c) {
    SCOPED_TRACE(c.name);
    make();
    edges_ = {};
    c.prepare();
    edges_ = {};  // also its memory: so that the edge allocates
    const Observation before = observe();
    std::uint64_t failures = 0;
    while (!succeeds(c.step, failures)) {
      ++failures;
      ASSERT_EQ(observe(), before) << "after " << failures << " failures";
      ASSERT_LT(failures, 100U);
    }
    EXPECT_GT(failures, 0U) << "the step allocates nothing: it proves nothing here";
  }

  UserRef user_;
};

TEST_F(PresenceRegistryOutOfMemoryTest, WhatFailsHasChangedNothingAndCanBeTriedAgain) {
  const auto log_in = [this](std::uint32_t number, std::string_view device) {
    user_ = login(kLongUid, session(number), 0, device).user;
  };
  const auto close = [this](std::uint32_t number, CloseReason reason) {
    ASSERT_TRUE(end(user_, session(number), reason, 1'000, 30'000));
  };
  constexpr const char* kLongDevice = "a device label that is no short string";
  std::vector<SessionRef> kicked;
  const OutOfMemoryCase cases[] = {
      {"first login", [] {}, [&] { log_in(1, ""); }},
      {"first login with a device", [] {}, [&] { log_in(1, kLongDevice); }},
      {"return of an offline user",
       [&] {
         log_in(1, "");
         close(1, CloseReason::kLogout);
       },
       [&] { log_in(2, kLongDevice); }},
      {"second session", [&] { log_in(1, ""); }, [&] { log_in(2, kLongDevice); }},
      {"takeover", [&] { log_in(1, kLongDevice); }, [&] { log_in(2, kLongDevice); }},
      {"linger", [&] { log_in(1, ""); }, [&] { close(1, CloseReason::kPeerClosed); }},
      {"logout", [&] { log_in(1, ""); }, [&] { close(1, CloseReason::kLogout); }},
      {"kick", [&] { log_in(1, kLongDevice); },
       [&] { registry().kick(kLongUid, at(1'000), edges_, kicked); }},
      {"shutdown", [&] { log_in(1, ""); },
       [&] {
         while (!registry().shutdown(at(1'000), 1'000, edges_)) {
         }
       }},
  };
  for (const OutOfMemoryCase& c : cases)
    run(c);
}

TEST_F(PresenceRegistryOutOfMemoryTest, AnExpiryThatFailsComesBackWithTheNextAdvance) {
  user_ = login(kLongUid, session(1), 0).user;
  end(user_, session(1), CloseReason::kPeerClosed, 1'000, 30'000);
  edges_ = {};
  HookList expired;
  ASSERT_TRUE(wheel_.advance(Tick{30}, 10, expired));
  TimerHook& hook = *expired.pop_front();
  {
    const FailingAllocations failing(0);
    EXPECT_THROW(registry().expire_lingering(hook, at(30'000), edges_), std::bad_alloc);
  }
  EXPECT_EQ(state(kLongUid, 30'000), PresenceState::kOnline);
  advance(30'000);
  EXPECT_EQ(only_edge().due, at(30'000));
}

}  // namespace
}  // namespace pulsewheel
