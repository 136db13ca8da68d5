#include "daemon/server/node_users.h"

#include <atomic>
#include <charconv>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/server/http_reply.h"
#include "daemon/server/user_reports.h"

namespace pulsewheel {
namespace {

/// "EPOCH-SHARD-SLOT": a page of another run of the daemon means nothing in this one.
std::string cursor_text(std::uint64_t epoch, const ManyUsers::ListCursor& cursor) {
  return std::to_string(epoch) + '-' + std::to_string(cursor.shard) + '-' +
         std::to_string(cursor.slot);
}

/// Takes a number off the front of `text`, and the '-' behind it.
template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (text.starts_with('-')) text.remove_prefix(1);
  return true;
}

std::optional<ManyUsers::ListCursor> parse_cursor(std::string_view text, std::uint64_t epoch,
                                                  std::size_t shards) {
  ManyUsers::ListCursor cursor;
  if (text.empty()) return cursor;
  const std::string_view whole = text;
  std::uint64_t of_epoch = 0;
  const bool numbers = take_number(text, of_epoch) && take_number(text, cursor.shard) &&
                       take_number(text, cursor.slot);
  if (!numbers || of_epoch != epoch || cursor.shard >= shards) return std::nullopt;
  if (whole != cursor_text(epoch, cursor)) return std::nullopt;
  return cursor;
}

std::vector<UserLine> lines_of(std::vector<KnownUser>&& users) {
  const WallClockMapping clock;
  std::vector<UserLine> lines;
  lines.reserve(users.size());
  for (KnownUser& user : users)
    lines.push_back(line_of(std::move(user), clock));
  return lines;
}

}  // namespace

/// One user, while the shards are asked.
struct NodeUsers::Look {
  UserFacts facts;
  bool places = false;  // wanted, too
  std::atomic<std::size_t> shards_missing{0};
  std::function<void(std::shared_ptr<Look>)> then;
};

NodeUsers::NodeUsers(std::vector<Shard*> shards, std::uint64_t epoch)
    : shards_(std::move(shards)), epoch_(epoch) {}

std::size_t NodeUsers::home_of(std::string_view uid) const noexcept {
  return home_shard_of(uid, shards_.front()->options().registry.hash_seed, shards_.size());
}

/// Calls `then` when everything is known, on the thread of one of the shards.
void NodeUsers::look_at(std::string uid, bool places,
                        std::function<void(std::shared_ptr<Look>)> then) {
  auto look = std::make_shared<Look>();
  look->facts.uid = std::move(uid);
  look->places = places;
  look->then = std::move(then);
  Shard& home = *shards_[home_of(look->facts.uid)];
  home.post([this, &home, look] {
    look->facts.view = home.find_user(look->facts.uid);
    ask_sessions(look);
  });
}

/// On the home shard: one post per shard that holds live sessions of the user.
void NodeUsers::ask_sessions(const std::shared_ptr<Look>& look) {
  UserFacts& facts = look->facts;
  facts.live.resize(shards_.size());
  if (look->places) facts.places.resize(shards_.size());
  std::size_t shards = 0;
  for (const UserSession& session : facts.view.sessions) {
    if (session.lingering) continue;
    auto& of_shard = facts.live[session.session.shard];
    if (of_shard.empty()) ++shards;
    of_shard.push_back(
        {.session = session.session, .last_packet = {}, .timeout = {}, .deadline = {}});
  }
  if (shards == 0) return look->then(look);
  look->shards_missing.store(shards);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (facts.live[i].empty()) continue;
    shards_[i]->post([&shard = *shards_[i], i, look] {
      shard.read_sessions(look->facts.live[i]);
      if (look->places) {
        for (const Shard::LiveSession& session : look->facts.live[i])
          look->facts.places[i].push_back(shard.locate_session(session.session));
      }
      if (look->shards_missing.fetch_sub(1) == 1) look->then(look);
    });
  }
}

void NodeUsers::user(std::string uid, Callback<UserReport> done) {
  using Reply = HttpReply<UserReport>;
  const auto reply = Reply::start(*http_, kAnswerLimit, std::move(done));
  look_at(std::move(uid), false, [reply](const std::shared_ptr<Look>& look) {
    Reply::post(reply, [look] { return report_of(look->facts); });
  });
}

void NodeUsers::explain(std::string uid, Callback<Explanation> done) {
  using Reply = HttpReply<Explanation>;
  const auto reply = Reply::start(*http_, kAnswerLimit, std::move(done));
  const auto home = static_cast<ShardIndex>(home_of(uid));
  look_at(std::move(uid), true, [this, reply, home](const std::shared_ptr<Look>& look) {
    const MonoTime now = MonoClock::now();
    Reply::post(reply, [this, look, home, now] {
      Explanation explanation = pulsewheel::explain(look->facts, home, now);
      add_past_edges(look->facts.uid, explanation);
      return explanation;
    });
  });
}

/// The home shard knows only the last one; and the newest of all may not have come here yet.
void NodeUsers::add_past_edges(std::string_view uid, Explanation& explanation) const {
  std::vector<EdgeReport>& edges = explanation.edges;
  for (const EventRing::PastEdge& past : events_->edges_of(uid, kPastEdgesMax)) {
    EdgeReport edge = report_of(past);
    const bool is_the_known_one = edges.size() == 1 && !edges.front().seq &&
                                  edges.front().kind == edge.kind &&
                                  edges.front().reason == edge.reason;
    if (is_the_known_one) edges.clear();
    edges.push_back(edge);
  }
}

/// The home shard knows logins and ends, not the packets in between: asks the sessions first, so
/// that the edge's last_seen is true.
void NodeUsers::kick(std::string uid, Callback<KickReport> done) {
  using Reply = HttpReply<KickReport>;
  const auto reply = Reply::start(*http_, kAnswerLimit, std::move(done));
  Shard& home = *shards_[home_of(uid)];
  look_at(std::move(uid), false, [&home, reply](const std::shared_ptr<Look>& look) {
    home.post([&home, reply, look] {
      const auto kicked = home.kick_user(look->facts.uid, newest_packet(look->facts));
      if (kicked) {
        log::info("kick", {{"uid", log::Uid{look->facts.uid}}}, "kicked: {} sessions", *kicked);
      }
      const KickReport report{.was_online = kicked.has_value(),
                              .kicked_sessions = kicked.value_or(0)};
      Reply::post(reply, [report] { return report; });
    });
  });
}

void NodeUsers::hold(std::string uid, Duration length, Callback<HoldReport> done) {
  using Reply = HttpReply<HoldReport>;
  const auto reply = Reply::start(*http_, kAnswerLimit, std::move(done));
  Shard& home = *shards_[home_of(uid)];
  home.post([&home, reply, length, uid = std::move(uid)] {
    const Shard::HoldOutcome outcome = home.hold_user(uid, length);
    if (outcome.verdict == PresenceRegistry::HoldVerdict::kHeld) {
      log::info("hold", {{"uid", log::Uid{uid}}}, "held for {} s at most",
                std::chrono::duration<double>(length).count());
    }
    Reply::post(reply, [outcome] { return report_of(outcome); });
  });
}

void NodeUsers::release(std::string uid, Callback<ReleaseReport> done) {
  using Reply = HttpReply<ReleaseReport>;
  const auto reply = Reply::start(*http_, kAnswerLimit, std::move(done));
  Shard& home = *shards_[home_of(uid)];
  home.post([&home, reply, uid = std::move(uid)] {
    const std::optional<Duration> held = home.release_user(uid);
    if (held) {
      log::info("hold", {{"uid", log::Uid{uid}}}, "released after {} s",
                std::chrono::duration<double>(*held).count());
    }
    const ReleaseReport report{
        .was_held = held.has_value(),
        .held_ms = std::chrono::duration_cast<std::chrono::milliseconds>(held.value_or(Duration{}))
                       .count()};
    Reply::post(reply, [report] { return report; });
  });
}

/// Null while too many are under way. What was given up on counts until the shards are done.
std::shared_ptr<ManyUsers> NodeUsers::begin_many() {
  std::erase_if(running_, [](const auto& many) { return many.expired(); });
  if (running_.size() >= kManyUsersMax) return nullptr;
  auto many = std::make_shared<ManyUsers>(shards_, http_->executor());
  running_.push_back(many);
  return many;
}

void NodeUsers::query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done) {
  const auto many = begin_many();
  if (!many) return done(std::nullopt);
  const auto reply = HttpReply<std::vector<UserLine>>::start(*http_, kAnswerLimit, std::move(done));
  many->find(std::move(uids), [reply](std::vector<KnownUser> users) {
    if (!reply->over()) reply->finish(lines_of(std::move(users)));
  });
}

bool NodeUsers::list(std::string_view cursor, std::size_t limit, Callback<UserPage> done) {
  const auto from = parse_cursor(cursor, epoch_, shards_.size());
  if (!from) return false;
  const auto many = begin_many();
  if (!many) {
    done(std::nullopt);
    return true;
  }
  const auto reply = HttpReply<UserPage>::start(*http_, kAnswerLimit, std::move(done));
  many->list(*from, limit,
             [reply, epoch = epoch_](std::vector<KnownUser> users,
                                     std::optional<ManyUsers::ListCursor> next) {
               if (reply->over()) return;
               reply->finish(UserPage{lines_of(std::move(users)),
                                      next ? cursor_text(epoch, *next) : std::string()});
             });
  return true;
}

}  // namespace pulsewheel
