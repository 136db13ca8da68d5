// Following a running daemon: /v1/events as pages and as a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/integration/followers.h"
#include "tests/integration/swarm.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using Json = nlohmann::json;

/// Nobody times out, and edges come in the order of what caused them: between shards they need not.
const std::vector<std::string> kInOrder{"presence.timeout=30s", "server.shards=1"};

void log_in_and_out(const Daemon& daemon, const std::string& uid) {
  Client client(daemon.port());
  client.login(uid);
  client.send_logout();
  static_cast<void>(client.expect(proto::FrameType::kLogoutAck));
}

Json page(const Daemon& daemon, const std::string& query) {
  const auto answer = daemon.get("/v1/events" + query);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return Json::parse(answer.body);
}

/// Once there are `count` events behind the cursor.
Json wait_for_page(const Daemon& daemon, std::size_t count, const std::string& cursor = "1-0") {
  Json found;
  EXPECT_TRUE(eventually([&] {
    found = page(daemon, "?cursor=" + cursor);
    return found.at("events").size() >= count;
  }));
  return found;
}

/// An event without its times, which the log and the ring map to the wall clock apart.
Json without_times(Json event) {
  event.erase("at");
  event.erase("last_seen");
  return event;
}

TEST(EventsTest, AFollowerGetsWhatTheEventLogGets) {
  const Daemon daemon({.sets = kInOrder});
  Followers followers(daemon.http_port());
  followers.add();
  ASSERT_TRUE(
      followers.read_until(0, [](const Follower& follower) { return follower.last_id == "1-0"; }));
  log_in_and_out(daemon, "alice");
  log_in_and_out(daemon, std::string("\0\n%\xff\"", 5));
  static_cast<void>(followers.event(0, 4));
  const auto logged = daemon.wait_for_edges(4);
  ASSERT_EQ(logged.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const SseEvent& event = followers.at(0).events[i];
    EXPECT_EQ(event.id, "1-" + std::to_string(i + 1));
    EXPECT_EQ(event.name, "message");
    EXPECT_EQ(without_times(event.data), without_times(logged[i]));
  }
  EXPECT_EQ(followers.at(0).events[2].data.at("uid"), "%00%0A%25%FF%22");
}

TEST(EventsTest, PagesReplayWhatHappened) {
  const Daemon daemon({.sets = kInOrder});
  EXPECT_EQ(page(daemon, ""),
            Json({{"events", Json::array()}, {"cursor", "1-0"}, {"more", false}}));
  log_in_and_out(daemon, "alice");
  log_in_and_out(daemon, "bob");
  const Json all = wait_for_page(daemon, 4);
  EXPECT_EQ(all.at("cursor"), "1-4");
  const Json first = page(daemon, "?cursor=1-0&limit=3");
  EXPECT_EQ(first.at("cursor"), "1-3");
  EXPECT_EQ(first.at("more"), true);
  EXPECT_EQ(page(daemon, "?cursor=1-3").at("events").at(0), all.at("events").at(3));
  EXPECT_EQ(page(daemon, "?tail=1").at("events"), Json({all.at("events").at(3)}));
}

TEST(EventsTest, APageWaitsForNews) {
  const Daemon daemon({.sets = kInOrder});
  Client waiting(daemon.http_port());
  waiting.send_text(
      "GET /v1/events?cursor=1-0&wait_s=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: "
      "close\r\n\r\n");
  // A request behind it on the one HTTP thread: by now the first one waits, or looks once more.
  static_cast<void>(page(daemon, ""));
  Client client(daemon.port());
  client.login("alice");
  const std::string answer = waiting.read_to_end();
  const Json found = Json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
  EXPECT_EQ(found.at("events").at(0).at("uid"), "alice");
  EXPECT_EQ(found.at("cursor"), "1-1");
}

TEST(EventsTest, AFollowerGoesOnWhereItWas) {
  const Daemon daemon({.sets = kInOrder});
  log_in_and_out(daemon, "alice");
  static_cast<void>(wait_for_page(daemon, 2));
  Followers followers(daemon.http_port());
  followers.add("?cursor=1-0");
  EXPECT_EQ(followers.event(0, 2).id, "1-2");
  followers.close(0);
  log_in_and_out(daemon, "bob");
  followers.add("?cursor=1-0", "Last-Event-ID: " + followers.at(0).last_id + "\r\n");
  EXPECT_EQ(followers.event(1, 2).data.at("uid"), "bob");
  EXPECT_EQ(followers.at(1).seqs, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(followers.at(1).resyncs, 0U);
}

TEST(EventsTest, AfterARestartAFollowerIsToldToResync) {
  const TemporaryFolder folder;
  std::string last_id;
  {
    const Daemon killed({.sets = kInOrder, .state_dir = folder.path()});
    log_in_and_out(killed, "alice");
    Followers followers(killed.http_port());
    followers.add("?cursor=1-0");
    last_id = followers.event(0, 2).id;
  }
  const Daemon daemon({.sets = kInOrder, .state_dir = folder.path()});
  Followers followers(daemon.http_port());
  followers.add({}, "Last-Event-ID: " + last_id + "\r\n");
  const SseEvent resync = followers.event(0, 1);
  EXPECT_EQ(resync.name, "resync");
  EXPECT_EQ(resync.id, "2-0");
  EXPECT_EQ(resync.data, Json({{"resync", true},
                               {"reason", "other_epoch"},
                               {"cursor", "2-0"},
                               {"snapshot", "/v1/users?state=online"}}));
  log_in_and_out(daemon, "bob");
  EXPECT_EQ(followers.event(0, 2).data.at("uid"), "bob");
  EXPECT_EQ(page(daemon, "?cursor=" + last_id).at("events").at(0).at("reason"), "other_epoch");
}

TEST(EventsTest, BehindAStopInOrderAFollowerGoesOn) {
  const TemporaryFolder folder;
  std::string last_id;
  {
    Daemon stopped({.sets = kInOrder, .state_dir = folder.path()});
    log_in_and_out(stopped, "alice");
    Followers followers(stopped.http_port());
    followers.add("?cursor=1-0");
    last_id = followers.event(0, 2).id;
    stopped.signal(SIGTERM);
    ASSERT_EQ(stopped.wait(), 0);
  }
  const Daemon daemon({.sets = kInOrder, .state_dir = folder.path()});
  Followers followers(daemon.http_port());
  followers.add({}, "Last-Event-ID: " + last_id + "\r\n");
  log_in_and_out(daemon, "bob");
  EXPECT_EQ(followers.event(0, 1).id, "2-3");
  EXPECT_EQ(followers.at(0).events[0].data.at("uid"), "bob");
  EXPECT_EQ(followers.at(0).resyncs, 0U);
}

TEST(EventsTest, ACursorAheadOfEverythingIsToldToResync) {
  const Daemon daemon;
  EXPECT_EQ(page(daemon, "?cursor=1-1").at("events").at(0).at("reason"), "ahead");
  EXPECT_EQ(page(daemon, "?cursor=9-0").at("events").at(0).at("reason"), "other_epoch");
}

TEST(EventsTest, AUidOfAnyBytesFilters) {
  const Daemon daemon({.sets = kInOrder});
  const std::string uid("a\0/?&=%\xff <", 10);
  const std::string encoded = "a%00%2F%3F%26%3D%25%FF%20%3C";
  Followers followers(daemon.http_port());
  followers.add("?uid=" + encoded);
  ASSERT_TRUE(
      followers.read_until(0, [](const Follower& follower) { return follower.last_id == "1-0"; }));
  log_in_and_out(daemon, "alice");
  log_in_and_out(daemon, uid);
  log_in_and_out(daemon, "bob");
  EXPECT_EQ(followers.event(0, 2).data.at("uid"), encoded);
  EXPECT_EQ(followers.at(0).seqs, (std::vector<std::uint64_t>{3, 4}));
  static_cast<void>(wait_for_page(daemon, 6));
  const Json found = page(daemon, "?cursor=1-0&uid=" + encoded);
  EXPECT_EQ(found.at("events").size(), 2U);
  EXPECT_EQ(found.at("cursor"), "1-6");
}

TEST(EventsTest, StreamsNeedTheTokenToo) {
  const TemporaryFolder folder;
  write_file(folder / "token", "correct-horse-battery-staple");
  const Daemon daemon({.sets = {"http.token_file=" + (folder / "token")}});
  Followers followers(daemon.http_port());
  followers.add();
  followers.add({}, "Authorization: Bearer correct-horse-battery-staple\r\n");
  ASSERT_TRUE(
      followers.read_until(0, 2, [&] { return followers.at(0).ended && followers.at(1).status; }));
  EXPECT_EQ(followers.at(0).status, 401U);
  EXPECT_EQ(followers.at(1).status, 200U);
}

TEST(EventsTest, OneFollowerTooManyIsToldSo) {
  const Daemon daemon({.sets = {"http.streams_max=1"}});
  Followers followers(daemon.http_port());
  followers.add();
  ASSERT_TRUE(followers.read_until(0, [](const Follower& follower) { return follower.status; }));
  followers.add();
  ASSERT_TRUE(followers.read_until(1, [](const Follower& follower) { return follower.status; }));
  EXPECT_EQ(followers.at(1).status, 503U);
}

/// The small one of two; the big one is in events_slow_test.cc.
TEST(EventsTest, InAMassExpiryReadersGetAllAndOthersAreToldToResync) {
  constexpr std::size_t kUsers = 1'000;
  constexpr std::size_t kReaders = 3;
  constexpr std::size_t kSlow = 12;
  // The ring holds the expiry, and not the logins before it.
  const Daemon daemon(
      {.sets = {"http.event_ring=1024", "presence.timeout=5s", "server.max_connections=2000"}});
  Followers followers(daemon.http_port(), {.keep_events = false, .receive_buffer_bytes = 4096});
  for (std::size_t i = 0; i < kReaders + kSlow; ++i)
    followers.add();
  const auto readers_have = [&](std::size_t edges) {
    return followers.read_until(0, kReaders, [&] {
      for (std::size_t i = 0; i < kReaders; ++i) {
        if (followers.at(i).seqs.size() < edges) return false;
      }
      return true;
    });
  };
  Swarm swarm(daemon.port());
  for (std::size_t round = 1; round <= 2; ++round) {
    ASSERT_TRUE(swarm.add_users(std::string(40, 'u') + std::to_string(round), kUsers / 2));
    ASSERT_TRUE(readers_have(round * kUsers / 2));
  }
  ASSERT_TRUE(readers_have(2 * kUsers));
  for (std::size_t i = 0; i < kReaders; ++i) {
    EXPECT_EQ(followers.at(i).seqs.back(), 2 * kUsers);
    EXPECT_EQ(followers.at(i).seqs.size(), 2 * kUsers);
    EXPECT_EQ(followers.at(i).resyncs, 0U);
  }
  ASSERT_TRUE(followers.read_until(kReaders, followers.size(), [&] {
    for (std::size_t i = kReaders; i < followers.size(); ++i) {
      if (followers.at(i).last_id != "1-" + std::to_string(2 * kUsers)) return false;
    }
    return true;
  }));
  for (std::size_t i = kReaders; i < followers.size(); ++i)
    EXPECT_EQ(followers.at(i).resyncs, 1U) << i;
}

}  // namespace
}  // namespace pulsewheel::test
