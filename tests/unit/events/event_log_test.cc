#include "daemon/events/event_log.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/base/percent.h"
#include "daemon/base/rfc3339.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::eventually;
using test::read_file;
using test::split_lines;

Edge edge_of(std::string_view uid, EdgeKind kind = EdgeKind::kOnline) {
  Edge edge;
  edge.uid = uid;
  edge.kind = kind;
  edge.reason = kind == EdgeKind::kOnline ? EdgeReason::kLogin : EdgeReason::kTimeout;
  edge.at = MonoClock::now();
  edge.last_seen = edge.at;
  edge.due = edge.at;
  return edge;
}

/// Plays the sequencer: gives numbers from 1 on.
class Feeder {
 public:
  explicit Feeder(EventLog& log) : log_(log) {}

  void feed(const std::vector<Edge>& edges) {
    EdgeBatch batch;
    for (const Edge& edge : edges)
      batch.push(edge);
    const std::uint64_t first = next_seq_;
    next_seq_ += edges.size();
    log_.on_edges({std::make_shared<const EdgeBatch>(std::move(batch)), 3, first});
  }
  void feed(std::size_t count) { feed(std::vector<Edge>(count, edge_of("user"))); }

 private:
  EventLog& log_;
  std::uint64_t next_seq_ = 1;
};

std::vector<nlohmann::json> parse_lines(const std::string& path) {
  std::vector<nlohmann::json> parsed;
  for (const std::string& line : split_lines(read_file(path))) {
    parsed.push_back(nlohmann::json::parse(line));
  }
  return parsed;
}

/// Every number from 1 to `last` is in the file, in order, as an edge or within a gap.
void expect_accounted_for(const std::string& path, std::uint64_t last) {
  std::uint64_t next = 1;
  for (const auto& line : parse_lines(path)) {
    if (line.contains("gap")) {
      ASSERT_EQ(line["first_seq"], next);
      next = line["last_seq"].get<std::uint64_t>() + 1;
      ASSERT_EQ(line["dropped"], next - line["first_seq"].get<std::uint64_t>());
    } else {
      ASSERT_EQ(line["seq"], next);
      ++next;
    }
  }
  EXPECT_EQ(next, last + 1);
}

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() { options_.path = path_; }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "events.jsonl";
  EventLog::Options options_;
};

TEST_F(EventLogTest, WritesOneLineOfFixedFormPerEdge) {
  const MonoTime now = MonoClock::now();
  Edge edge = edge_of("al ice", EdgeKind::kOffline);
  edge.at = now;
  edge.last_seen = now - seconds{30};
  edge.sessions = 2;
  {
    EventLog log(options_);
    Feeder(log).feed({edge});
  }
  const std::string text = read_file(path_);
  ASSERT_EQ(split_lines(text).size(), 1U);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_TRUE(text.starts_with(R"({"seq":1,"epoch":3,"uid":"al%20ice","kind":"offline",)"
                               R"("reason":"timeout","at":")"))
      << text;
  EXPECT_TRUE(text.ends_with("Z\",\"sessions\":2}\n")) << text;
}

TEST_F(EventLogTest, TimesAreTheWallClockOfTheMonotonicOnes) {
  const WallTime before = std::chrono::system_clock::now();
  {
    EventLog log(options_);
    Edge edge = edge_of("a");
    edge.last_seen = edge.at - seconds{30};
    Feeder(log).feed({edge});
  }
  const WallTime after = std::chrono::system_clock::now();
  const auto line = parse_lines(path_).at(0);
  // The text sorts like the time. A millisecond for the two clocks being read one after the other.
  EXPECT_GE(line["at"].get<std::string>(), to_rfc3339(before - milliseconds{1}));
  EXPECT_LE(line["at"].get<std::string>(), to_rfc3339(after + milliseconds{1}));
  EXPECT_LE(line["last_seen"].get<std::string>(),
            to_rfc3339(after - seconds{30} + milliseconds{1}));
}

TEST_F(EventLogTest, AnyBytesInAUidComeBackFromValidJson) {
  std::string uid;
  for (int byte = 0; byte < 128; ++byte)
    uid.push_back(static_cast<char>(byte * 2 + 1));
  {
    EventLog log(options_);
    Feeder(log).feed({edge_of(uid)});
  }
  EXPECT_EQ(percent_decode(parse_lines(path_).at(0)["uid"].get<std::string>()), uid);
}

TEST_F(EventLogTest, WritesWithoutBeingStopped) {
  EventLog log(options_);
  Feeder feeder(log);
  for (std::size_t n = 1; n <= 20; ++n) {
    feeder.feed(1);
    ASSERT_TRUE(eventually([&] { return log.stats().written == n; }));
  }
  EXPECT_EQ(parse_lines(path_).size(), 20U);
}

TEST_F(EventLogTest, KeepsTheOrderOfManyEdges) {
  {
    EventLog log(options_);
    Feeder feeder(log);
    feeder.feed(5'000);
    for (int i = 0; i < 3'000; ++i)
      feeder.feed(1);
  }
  expect_accounted_for(path_, 8'000);
}

TEST_F(EventLogTest, AppendsToWhatIsThere) {
  test::write_file(path_, "{\"earlier\":1}\n");
  {
    EventLog log(options_);
    Feeder(log).feed(1);
  }
  const auto lines = parse_lines(path_);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].contains("earlier"));
}

TEST_F(EventLogTest, OfflineEdgesGoToTheirOwnFile) {
  options_.offline_path = folder_ / "offline.jsonl";
  {
    EventLog log(options_);
    Feeder(log).feed({edge_of("a"), edge_of("a", EdgeKind::kOffline), edge_of("b"),
                      edge_of("b", EdgeKind::kOffline)});
  }
  const auto online = parse_lines(path_);
  const auto offline = parse_lines(options_.offline_path);
  ASSERT_EQ(online.size(), 2U);
  ASSERT_EQ(offline.size(), 2U);
  EXPECT_EQ(online[1]["seq"], 3);
  EXPECT_EQ(offline[1]["seq"], 4);
  EXPECT_EQ(offline[1]["kind"], "offline");
}

TEST_F(EventLogTest, OneFullFileDoesNotHoldUpTheOther) {
  options_.offline_path = "/dev/full";
  options_.stop_within = milliseconds{10};
  EventLog log(options_);
  Feeder feeder(log);
  for (int i = 0; i < 100; ++i)
    feeder.feed({edge_of("a"), edge_of("a", EdgeKind::kOffline)});
  EXPECT_TRUE(eventually([&] { return log.stats().written == 100; }));
  EXPECT_TRUE(eventually([&] { return log.stats().errors > 0; }));
}

TEST_F(EventLogTest, WithoutAPathThereIsNoLog) {
  options_.path.clear();
  EventLog log(options_);
  Feeder(log).feed(3);
  log.reopen();
  EXPECT_EQ(log.stats().queued, 0U);
}

TEST_F(EventLogTest, AFolderThatIsMissingIsAnErrorThatNamesThePath) {
  options_.path = folder_ / "missing/events.jsonl";
  try {
    EventLog log(options_);
    FAIL() << "opened";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find(options_.path), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

TEST_F(EventLogTest, WhatDoesNotFitTheQueueIsDroppedCountedAndTold) {
  std::atomic<bool> full{true};
  options_.queue_edges_max = 10;
  options_.calls.write = [&full](int fd, const void* bytes, std::size_t size) -> ssize_t {
    if (!full) return ::write(fd, bytes, size);
    errno = ENOSPC;
    return -1;
  };
  {
    EventLog log(options_);
    Feeder feeder(log);
    feeder.feed(6);
    feeder.feed(5);  // dropped: 7 to 11
    feeder.feed(4);
    feeder.feed(1);  // dropped: 16
    EXPECT_EQ(log.stats().dropped, 6U);
    EXPECT_EQ(log.stats().queued, 10U);
    full = false;
    EXPECT_TRUE(eventually([&] { return log.stats().queued == 0; }));
    feeder.feed(1);
    EXPECT_TRUE(eventually([&] { return log.stats().written == 11; }));
  }
  expect_accounted_for(path_, 17);
}

TEST_F(EventLogTest, ADropThatNothingFollowsIsToldAtTheEnd) {
  options_.queue_edges_max = 1;
  {
    EventLog log(options_);
    Feeder(log).feed(2);
  }
  expect_accounted_for(path_, 2);
}

TEST_F(EventLogTest, TheSequencersGapIsTold) {
  {
    EventLog log(options_);
    log.on_gap({3, 1, 4});
    EdgeBatch batch;
    batch.push(edge_of("a"));
    log.on_edges({std::make_shared<const EdgeBatch>(std::move(batch)), 3, 5});
  }
  const auto lines = split_lines(read_file(path_));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], R"({"gap":true,"dropped":4,"first_seq":1,"last_seq":4})");
}

TEST_F(EventLogTest, AFullDiskEndsTheLogInBoundedTime) {
  options_.path = "/dev/full";
  options_.stop_within = milliseconds{50};
  const MonoTime begin = MonoClock::now();
  {
    EventLog log(options_);
    Feeder(log).feed(10);
  }
  EXPECT_LT(MonoClock::now() - begin, seconds{10});
}

/// Writes that always stop after some bytes, as on a disk with little room: every line in the file
/// is whole at any time.
TEST_F(EventLogTest, AWriteThatIsCutShortLeavesNoTornLine) {
  std::atomic<bool> full{false};
  std::atomic<int> room{700};
  options_.calls.write = [&](int fd, const void* bytes, std::size_t size) -> ssize_t {
    if (!full) return ::write(fd, bytes, size);
    const auto some = std::min(size, static_cast<std::size_t>(room.exchange(0)));
    if (some > 0) return ::write(fd, bytes, some);
    errno = ENOSPC;
    return -1;
  };
  full = true;
  {
    EventLog log(options_);
    Feeder(log).feed(20);
    ASSERT_TRUE(eventually([&] { return log.stats().errors >= 2; }));
    EXPECT_EQ(read_file(path_).back(), '\n');
    expect_accounted_for(path_, log.stats().written);
    EXPECT_GT(log.stats().written, 0U);
    full = false;
  }
  expect_accounted_for(path_, 20);
}

TEST_F(EventLogTest, AWriteThatHangsDoesNotHoldTheFeederNorTheDestructor) {
  // Not the test's own: the hanging thread outlives the log.
  struct Gate {
    std::atomic<bool> entered{false}, open{false}, left{false};
  };
  const auto gate = std::make_shared<Gate>();
  options_.calls.write = [gate](int, const void*, std::size_t size) -> ssize_t {
    gate->entered = true;
    static_cast<void>(eventually([&] { return gate->open.load(); }));
    gate->left = true;
    return static_cast<ssize_t>(size);
  };
  options_.stop_within = milliseconds{20};
  options_.queue_edges_max = 100;
  {
    EventLog log(options_);
    Feeder feeder(log);
    feeder.feed(1);
    ASSERT_TRUE(eventually([&] { return gate->entered.load(); }));
    for (int i = 0; i < 300; ++i)
      feeder.feed(1);
    EXPECT_EQ(log.stats().dropped, 201U);
  }
  EXPECT_FALSE(gate->left.load());
  gate->open = true;
  EXPECT_TRUE(eventually([&] { return gate->left.load(); }));
}

TEST_F(EventLogTest, AFileThatReachesItsSizeIsRotated) {
  options_.rotate_bytes = 1;  // after every write
  options_.rotate_keep = 2;
  {
    EventLog log(options_);
    Feeder feeder(log);
    for (std::uint64_t n = 1; n <= 4; ++n) {
      feeder.feed(1);
      ASSERT_TRUE(eventually([&] { return log.stats().written == n; }));
    }
  }
  EXPECT_EQ(read_file(path_), "");
  EXPECT_EQ(parse_lines(path_ + ".1").at(0)["seq"], 4);
  EXPECT_EQ(parse_lines(path_ + ".2").at(0)["seq"], 3);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
}

TEST_F(EventLogTest, ChangedRotationHoldsFromTheNextEdgesOn) {
  EventLog log(options_);
  Feeder feeder(log);
  feeder.feed(1);
  ASSERT_TRUE(eventually([&] { return log.stats().written == 1; }));
  log.set_rotation(1, 1);
  feeder.feed(1);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(path_ + ".1"); }));
}

TEST_F(EventLogTest, ReopenFollowsTheNameAfterARename) {
  EventLog log(options_);
  Feeder feeder(log);
  feeder.feed(1);
  ASSERT_TRUE(eventually([&] { return log.stats().written == 1; }));
  std::filesystem::rename(path_, path_ + ".old");
  log.reopen();
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(path_); }));
  feeder.feed(1);
  ASSERT_TRUE(eventually([&] { return log.stats().written == 2; }));
  EXPECT_EQ(parse_lines(path_).at(0)["seq"], 2);
}

TEST_F(EventLogTest, AReopenThatFailsKeepsTheOldFile) {
  EventLog log(options_);
  Feeder feeder(log);
  std::filesystem::rename(path_, path_ + ".old");
  std::filesystem::create_directory(path_);
  log.reopen();
  ASSERT_TRUE(eventually([&] { return log.stats().errors > 0; }));
  feeder.feed(1);
  ASSERT_TRUE(eventually([&] { return log.stats().written == 1; }));
  EXPECT_EQ(parse_lines(path_ + ".old").size(), 1U);
}

TEST_F(EventLogTest, APipeThatNobodyReadsBlocksNobodyAndGetsEverythingLater) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EventLog log(options_);
  Feeder feeder(log);
  feeder.feed(2'000);  // several pipes full
  ASSERT_TRUE(eventually([&] { return log.stats().errors > 0; }));
  EXPECT_EQ(log.stats().written, 0U);

  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::string text;
  EXPECT_TRUE(eventually([&] {
    char bytes[4096];
    const ssize_t n = ::read(reader, bytes, sizeof bytes);
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    return std::count(text.begin(), text.end(), '\n') == 2'000;
  }));
  ::close(reader);
  std::uint64_t next = 1;
  for (const std::string& line : split_lines(text)) {
    ASSERT_EQ(nlohmann::json::parse(line)["seq"], next++);
  }
}

TEST_F(EventLogTest, AReaderOfThePipeThatGoesAwayIsNoSignal) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  options_.stop_within = milliseconds{20};
  EventLog log(options_);
  Feeder feeder(log);
  feeder.feed(1);
  ASSERT_TRUE(eventually([&] { return log.stats().written == 1; }));
  ::close(reader);
  feeder.feed(1);
  EXPECT_TRUE(eventually([&] { return log.stats().errors > 0; }));
  EXPECT_EQ(log.stats().written, 1U);
}

}  // namespace
}  // namespace pulsewheel
