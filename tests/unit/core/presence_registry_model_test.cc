// The registry against the plain rules, over seeded random operations.
//
// PULSEWHEEL_MODEL_STEPS and PULSEWHEEL_MODEL_SEED override the number of steps and the seed.
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/core/presence_registry.h"
#include "tests/unit/core/presence_model.h"

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using test::PresenceModel;

constexpr milliseconds kTick{100};
constexpr std::uint64_t kStepsDefault = 1'000'000;  // of all variants together
constexpr std::uint64_t kStepsPerComparison = 64;
constexpr std::uint64_t kSeedDefault = 20'240'607;

std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Variant {
  const char* name;
  bool linger;
  std::uint32_t sessions_per_user_max;
  std::size_t users_max;
  std::size_t offline_users_max;
};

constexpr Variant kVariants[] = {
    {"Linger", true, 3, 1'000, 1'000},
    {"NoLinger", false, 3, 1'000, 1'000},
    {"FullServer", true, 2, 40, 10},
    {"OneSessionNoOfflineMemory", true, 1, 1'000, 0},
};

/// Uids of all lengths that a record stores differently, and with bytes that text would not hold.
std::vector<std::string> make_uids() {
  std::vector<std::string> uids;
  for (char c = 0; c < 16; ++c) {
    for (const std::size_t size : {1U, 8U, 15U, 16U, 17U, 128U}) {
      std::string uid(size, 'u');
      uid.back() = c;
      uids.push_back(uid);
    }
  }
  return uids;
}

/// Carries out random operations on both, and compares what they say.
class Duel {
 public:
  Duel(const Variant& variant, std::uint64_t seed)
      : options_{.shard = 3,
                 .node_epoch = 9,
                 .linger = variant.linger,
                 .sessions_per_user_max = variant.sessions_per_user_max,
                 .users_max = variant.users_max,
                 .offline_retention = std::chrono::seconds{20},
                 .offline_users_max = variant.offline_users_max,
                 .hash_seed = seed},
        random_(seed),
        registry_(options_, wheel_, clock_),
        model_(options_) {}

  void step() {
    now_ += milliseconds{pick(100) == 0 ? pick(3'000) : pick(8)};
    const std::uint32_t roll = pick(100);
    if (roll < 40) {
      login();
    } else if (roll < 65) {
      end_live_session();
    } else if (roll < 75) {
      end_stale_session();
    } else if (roll < 95) {
      advance();
    } else if (roll < 96) {
      kick();
    } else if (roll < 98) {
      forget_offline();
    } else {
      handle_expired();
    }
    look_up(uids_[pick(uids_.size())]);
  }

  /// Brings both up to now, and compares everything.
  void compare_all() {
    while (!advance()) {
    }
    for (const std::string& uid : uids_)
      look_up(uid);
    EXPECT_EQ(registry_.online_users(), model_.online());
    EXPECT_EQ(registry_.offline_users(), model_.offline());
    EXPECT_EQ(registry_.lingering_users(), model_.lingering());
    EXPECT_EQ(registry_.live_sessions(), model_.live_sessions());
    for (const auto& [uid, user] : model_.users()) {
      if (!user.online || PresenceModel::has_live(user)) continue;
      MonoTime latest{};
      for (const auto& s : user.sessions)
        latest = std::max(latest, s.deadline);
      EXPECT_GT(clock_.ceil(latest), wheel_.now()) << "missed: the wheel has passed the deadline";
    }
  }

  /// Everybody logs out by running out: the last edge of each user is offline.
  void end() {
    for (const std::string& uid : uids_) {
      std::vector<SessionRef> refs;
      const PresenceModel::User* user = model_.find(uid);
      if (user == nullptr) continue;
      const UserRef ref = user->ref;
      for (const auto& s : user->sessions) {
        if (s.live) refs.push_back(s.ref);
      }
      for (const SessionRef session : refs) {
        end_session(uid, {ref, session, CloseReason::kPeerClosed, now_, now_ + milliseconds{500}});
      }
    }
    now_ += std::chrono::minutes{1};
    while (!advance()) {
    }
    EXPECT_EQ(registry_.online_users(), 0U);
    for (const auto& [uid, kind] : last_kind_)
      EXPECT_EQ(kind, EdgeKind::kOffline);
  }

  std::uint64_t online_edges = 0, offline_edges = 0, takeovers = 0, refusals = 0, ran_out = 0;

 private:
  struct Past {
    std::string uid;
    SessionEnd end;
  };

  std::uint32_t pick(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

  SessionRef new_session() {
    const std::uint32_t index = pick(8);  // few, so that slots are reused a lot
    return {index, ++generation_, static_cast<ShardIndex>(pick(2))};
  }

  void login() {
    const std::string& uid = uids_[pick(uids_.size())];
    static const std::string kDevices[] = {"", "phone", "tablet", std::string(64, 'd'), "tv"};
    const std::string& device = kDevices[pick(std::size(kDevices))];
    // Another shard's packet may be stamped a little later than this shard's round.
    const MonoTime at = now_ - milliseconds{20} + milliseconds{pick(25)};
    const LoginVerdict verdict = model_.verdict(uid, device);
    const PresenceModel::User* known = model_.find(uid);
    const bool known_before = known != nullptr;
    const UserRef ref_before = known_before ? known->ref : UserRef{};

    PresenceModel::Session session{
        .ref = new_session(), .device = device, .login_at = at, .last_packet = at, .deadline = {}};
    const LoginDecision decision = registry_.login({uid, device, session.ref, at}, now_, edges_);
    ASSERT_EQ(decision.verdict, verdict);
    if (verdict != LoginVerdict::kAccepted) {
      ++refusals;
      EXPECT_TRUE(edges_.empty());
      EXPECT_EQ(decision.session_id, 0U);
      return;
    }
    EXPECT_GT(decision.session_id, last_id_);
    last_id_ = session.id = decision.session_id;
    if (known_before) {
      EXPECT_EQ(decision.user, ref_before) << "a record keeps its name";
    }

    bool came_online = false;
    const auto taken_over = model_.login(uid, session, decision.user, now_, came_online);
    EXPECT_EQ(decision.taken_over, taken_over);
    if (taken_over) {
      ++takeovers;
      remember({uid, {decision.user, *taken_over, CloseReason::kTakenOver, now_, now_}});
    }
    if (came_online) {
      ASSERT_EQ(edges_.size(), 1U);
      check_edge(edges_.at(0), uid, EdgeKind::kOnline, {{EdgeReason::kLogin, now_}});
    } else {
      EXPECT_TRUE(edges_.empty());
    }
    edges_.clear();
  }

  void end_live_session() {
    const std::string& uid = uids_[pick(uids_.size())];
    const PresenceModel::User* user = model_.find(uid);
    if (user == nullptr) return;
    std::vector<PresenceModel::Session> live;
    for (const auto& s : user->sessions) {
      if (s.live) live.push_back(s);
    }
    if (live.empty()) return;
    const PresenceModel::Session& session = live[pick(live.size())];
    static constexpr CloseReason kReasons[] = {
        CloseReason::kLogout,       CloseReason::kTimeout,       CloseReason::kPeerClosed,
        CloseReason::kPeerReset,    CloseReason::kProtocolError, CloseReason::kSlowConsumer,
        CloseReason::kLoginTimeout, CloseReason::kKicked,        CloseReason::kTakenOver,
        CloseReason::kDrained,      CloseReason::kPeerClosed,    CloseReason::kPeerClosed};
    const CloseReason reason = kReasons[pick(std::size(kReasons))];
    // Around now: also a little ahead of this shard's clock for a timeout.
    const MonoTime deadline = reason == CloseReason::kTimeout
                                  ? now_ - milliseconds{pick(300)} + milliseconds{pick(10)}
                                  : now_ - milliseconds{200} + milliseconds{pick(4'000)};
    const MonoTime last_packet = std::min(deadline, now_) - milliseconds{pick(1'000)};
    end_session(uid, {user->ref, session.ref, reason, last_packet, deadline});
  }

  void end_session(const std::string& uid, const SessionEnd& end) {
    ASSERT_TRUE(registry_.end_session(end, now_, edges_));
    const auto endings = model_.end(uid, end.session, end.reason, end.last_packet, end.deadline,
                                    now_, edges_.empty());
    remember({uid, end});
    if (endings.empty()) {
      EXPECT_TRUE(edges_.empty());
    } else {
      ASSERT_EQ(edges_.size(), 1U);
      check_edge(edges_.at(0), uid, EdgeKind::kOffline, endings);
      model_.went_offline(uid, now_);
    }
    edges_.clear();
  }

  /// What was over before, and refs that never were: nothing may come of it.
  void end_stale_session() {
    SessionEnd end{{pick(100), pick(5), 3}, {pick(8), 0, 0}, CloseReason::kLogout, now_, now_};
    if (!past_.empty() && pick(10) != 0) end = past_[pick(past_.size())].end;
    end.reason = pick(2) == 0 ? CloseReason::kLogout : CloseReason::kPeerClosed;
    EXPECT_FALSE(registry_.end_session(end, now_, edges_));
    EXPECT_TRUE(edges_.empty());
  }

  void remember(const Past& past) {
    if (past_.size() < 1'000) {
      past_.push_back(past);
    } else {
      past_[pick(past_.size())] = past;
    }
  }

  /// Turns the wheel, with a small budget at times. What expired may be handled much later.
  bool advance() {
    const bool done =
        wheel_.advance(clock_.floor(now_), pick(4) == 0 ? pick(5) : 100'000, expired_);
    if (done || pick(2) == 0) handle_expired();
    return done;
  }

  void handle_expired() {
    while (TimerHook* hook = expired_.pop_front()) {
      registry_.expire_lingering(*hook, now_, edges_);
    }
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      const std::string uid(edges_.at(i).uid);
      const auto endings = model_.ran_out(uid, now_);
      EXPECT_FALSE(endings.empty()) << "early";
      check_edge(edges_.at(i), uid, EdgeKind::kOffline, endings);
      model_.went_offline(uid, now_);
      ++ran_out;
    }
    edges_.clear();
  }

  void kick() {
    const std::string& uid = uids_[pick(uids_.size())];
    const PresenceModel::User* user = model_.find(uid);
    std::vector<SessionRef> live;
    const bool kicked = registry_.kick(uid, now_, edges_, live);
    ASSERT_EQ(kicked, user != nullptr && user->online);
    if (!kicked) return;
    const auto before = [](SessionRef a, SessionRef b) { return a.generation < b.generation; };
    std::vector<SessionRef> expected;
    for (const auto& s : user->sessions) {
      if (s.live) expected.push_back(s.ref);
    }
    std::sort(live.begin(), live.end(), before);
    std::sort(expected.begin(), expected.end(), before);
    EXPECT_EQ(live, expected);
    for (const SessionRef ref : live) {
      remember({uid, {user->ref, ref, CloseReason::kKicked, now_, now_}});
    }
    ASSERT_EQ(edges_.size(), 1U);
    check_edge(edges_.at(0), uid, EdgeKind::kOffline, {{EdgeReason::kKicked, now_}});
    model_.went_offline(uid, now_);
    edges_.clear();
  }

  void forget_offline() {
    const std::size_t budget = pick(10);
    EXPECT_EQ(registry_.forget_offline(now_, budget), model_.forget_offline(now_, budget));
  }

  void check_edge(const Edge& edge, const std::string& uid, EdgeKind kind,
                  const std::vector<PresenceModel::Ending>& ways) {
    EXPECT_EQ(edge.uid, uid);
    EXPECT_EQ(edge.kind, kind);
    EXPECT_EQ(edge.at, now_);
    EXPECT_LE(edge.due, edge.at) << "never early";
    EXPECT_EQ(edge.last_seen, model_.find(uid)->last_seen);
    EXPECT_EQ(edge.sessions, kind == EdgeKind::kOnline ? 1U : 0U);
    const bool known_way = std::any_of(ways.begin(), ways.end(), [&](const auto& way) {
      return way.reason == edge.reason && way.due == edge.due;
    });
    EXPECT_TRUE(known_way) << to_string(edge.reason);

    const auto [last, first] = last_kind_.try_emplace(uid, EdgeKind::kOffline);
    EXPECT_NE(last->second, kind) << "edges of a user alternate";
    last->second = kind;
    ++(kind == EdgeKind::kOnline ? online_edges : offline_edges);
  }

  void look_up(const std::string& uid) {
    const UserView view = registry_.find(uid, now_);
    const PresenceModel::User* user = model_.find(uid);
    const bool remembered =
        user != nullptr && (user->online || user->since + options_.offline_retention > now_);
    EXPECT_EQ(view.state == PresenceState::kOnline, user != nullptr && user->online);
    EXPECT_EQ(view.since.has_value(), remembered);
    if (!remembered) return;
    EXPECT_EQ(*view.since, user->since);
    EXPECT_EQ(view.last_seen, user->last_seen);

    // Lingering sessions that have run out may be gone or not: nothing depends on them.
    std::set<SessionId> seen, expected;
    for (const UserSession& s : view.sessions) {
      if (s.lingering && s.deadline <= now_) continue;
      seen.insert(s.id);
      EXPECT_EQ(s.lingering, s.session.generation == 0);
    }
    for (const auto& s : user->sessions) {
      if (PresenceModel::alive(s, now_)) expected.insert(s.id);
    }
    EXPECT_EQ(seen, expected);
  }

  const PresenceRegistry::Options options_;
  std::mt19937_64 random_;
  const std::vector<std::string> uids_ = make_uids();
  MonoTime now_{std::chrono::seconds{1'000}};
  const TickClock clock_{MonoTime{std::chrono::seconds{990}}, kTick};
  TimeWheel wheel_{clock_.floor(now_)};
  PresenceRegistry registry_;
  PresenceModel model_;
  HookList expired_;
  EdgeBatch edges_;
  std::vector<Past> past_;
  std::map<std::string, EdgeKind> last_kind_;
  SessionId last_id_ = 0;
  std::uint32_t generation_ = 0;
};

class PresenceRegistryModelTest : public ::testing::TestWithParam<Variant> {};

TEST_P(PresenceRegistryModelTest, AgreesWithThePlainRules) {
  const std::uint64_t seed = number_from_env("PULSEWHEEL_MODEL_SEED", kSeedDefault);
  const std::uint64_t steps =
      number_from_env("PULSEWHEEL_MODEL_STEPS", kStepsDefault) / std::size(kVariants);
  SCOPED_TRACE("PULSEWHEEL_MODEL_SEED=" + std::to_string(seed));
  std::cout << "seed " << seed << ", " << steps << " steps\n";
  Duel duel(GetParam(), seed);
  for (std::uint64_t i = 0; i < steps && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    duel.step();
    if (i % kStepsPerComparison == 0) duel.compare_all();
  }
  if (!HasFailure()) duel.end();

  // It would agree about nothing, too.
  EXPECT_GT(duel.online_edges, steps / 50);
  EXPECT_EQ(duel.online_edges, duel.offline_edges);
  EXPECT_GT(duel.takeovers + duel.refusals, 0U);
  if (GetParam().linger) {
    EXPECT_GT(duel.ran_out, steps / 1'000);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, PresenceRegistryModelTest, ::testing::ValuesIn(kVariants),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace pulsewheel
