// NodeUsers: what the HTTP port asks and does about users, put to the shards.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/admin/http_server.h"
#include "daemon/admin/status_source.h"
#include "daemon/events/event_ring.h"
#include "daemon/server/many_users.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// Functions are for the HTTP thread, and call back on it, after kAnswerLimit at the latest (then
/// with nullopt). Outlives the HTTP thread; what it posted to a shard holds only what lives as long
/// as the shards.
class NodeUsers {
 public:
  template <class Report>
  using Callback = StatusSource::Callback<Report>;

  NodeUsers(std::vector<Shard*> shards, std::uint64_t epoch);

  /// Where callbacks run, and what knows the edges of the past.
  void attach(HttpServer& http, const EventRing& events) noexcept {
    http_ = &http;
    events_ = &events;
  }

  // As in StatusSource.
  void user(std::string uid, Callback<UserReport> done);
  void explain(std::string uid, Callback<Explanation> done);
  void kick(std::string uid, Callback<KickReport> done);
  void hold(std::string uid, Duration length, Callback<HoldReport> done);
  void release(std::string uid, Callback<ReleaseReport> done);
  void query(std::vector<std::string> uids, Callback<std::vector<UserLine>> done);
  [[nodiscard]] bool list(std::string_view cursor, std::size_t limit, Callback<UserPage> done);

  /// How long a question to a shard may take.
  static constexpr Duration kAnswerLimit = std::chrono::seconds{2};
  /// What an explanation tells of the past.
  static constexpr std::size_t kPastEdgesMax = 16;
  /// Questions about many users under way at a time: each may take some 5 MB.
  static constexpr std::size_t kManyUsersMax = 16;

 private:
  struct Look;

  [[nodiscard]] std::size_t home_of(std::string_view uid) const noexcept;
  void look_at(std::string uid, bool places, std::function<void(std::shared_ptr<Look>)> then);
  void ask_sessions(const std::shared_ptr<Look>& look);
  [[nodiscard]] std::shared_ptr<ManyUsers> begin_many();
  void add_past_edges(std::string_view uid, Explanation& explanation) const;

  const std::vector<Shard*> shards_;
  const std::uint64_t epoch_;
  HttpServer* http_ = nullptr;
  const EventRing* events_ = nullptr;
  std::vector<std::weak_ptr<ManyUsers>> running_;
};

}  // namespace pulsewheel
