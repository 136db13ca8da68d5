#include "tests/client_sim/edge_follower.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;
using Kind = ObservedEdge::Kind;
namespace fs = std::filesystem;

class EdgeFollowerTest : public testing::Test {
 protected:
  EdgeFollowerTest() {
    std::string name = fs::temp_directory_path() / "pulsewheel-follower-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~EdgeFollowerTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return folder_ / name; }

  std::string line(std::uint64_t seq, std::uint32_t user, const std::string& kind) const {
    UidNames::Buffer buffer;
    return R"({"seq":)" + std::to_string(seq) + R"(,"epoch":1,"uid":")" +
           std::string(names.write(user, buffer)) + R"(","kind":")" + kind +
           R"(","reason":"x","at":"","last_seen":"","sessions":0})" + "\n";
  }
  static void append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
  }

  EdgeFollower::Setup setup_for(std::vector<std::string> paths) {
    EdgeFollower::Setup setup;
    setup.paths = std::move(paths);
    setup.from_start = true;
    setup.names = &names;
    setup.inboxes = {&first, &second};
    setup.users_per_inbox = 10;
    return setup;
  }

  /// Everything written until now has been handed on when this returns.
  static void catch_up(const EdgeFollower& follower) {
    const MonoTime now = MonoClock::now();
    const MonoTime limit = now + 20s;
    while (follower.caught_up() < now && MonoClock::now() < limit)
      std::this_thread::yield();
    ASSERT_GE(follower.caught_up(), now);
  }
  static std::vector<UserEdge> take(EdgeInbox& inbox) {
    std::vector<UserEdge> edges;
    inbox.take(edges);
    return edges;
  }

  UidNames names{0xabcdef};
  EdgeInbox first;
  EdgeInbox second;

 private:
  fs::path folder_;
};

TEST_F(EdgeFollowerTest, GivesEachWorkerItsOwnUsersByItsOwnNumbers) {
  append(file("a"), line(1, 3, "online") + line(2, 14, "online") + line(3, 3, "offline"));
  EdgeFollower follower(setup_for({file("a")}));
  catch_up(follower);
  const auto left = take(first);
  const auto right = take(second);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].user, 3U);
  EXPECT_EQ(left[0].edge.kind, Kind::kOnline);
  EXPECT_EQ(left[1].edge.kind, Kind::kOffline);
  ASSERT_EQ(right.size(), 1U);
  EXPECT_EQ(right[0].user, 4U);
}

TEST_F(EdgeFollowerTest, ReadsOnWhileTheFileGrows) {
  EdgeFollower follower(setup_for({file("a")}));
  for (std::uint64_t seq = 1; seq <= 20; ++seq) {
    append(file("a"), line(seq, 1, seq % 2 == 1 ? "online" : "offline"));
    catch_up(follower);
    EXPECT_EQ(take(first).size(), 1U) << seq;
  }
  EXPECT_EQ(follower.stats().edges.value(), 20U);
}

TEST_F(EdgeFollowerTest, CountsWhatIsNotOurs) {
  append(file("a"), R"({"seq":1,"epoch":1,"uid":"somebody","kind":"online","reason":"login"})"
                    "\nrubbish\n" +
                        line(2, 25, "online"));
  EdgeFollower follower(setup_for({file("a")}));
  catch_up(follower);
  EXPECT_EQ(follower.stats().foreign.value(), 2U) << "user 25 belongs to nobody here";
  EXPECT_EQ(follower.stats().unreadable.value(), 1U);
  EXPECT_EQ(follower.stats().edges.value(), 0U);
}

TEST_F(EdgeFollowerTest, CountsEdgesOutOfOrder) {
  append(file("a"),
         line(2, 1, "online") + line(1, 2, "online") + line(1, 3, "online") + line(3, 4, "online"));
  EdgeFollower follower(setup_for({file("a")}));
  catch_up(follower);
  EXPECT_EQ(follower.stats().reordered.value(), 2U);
  EXPECT_EQ(follower.stats().edges.value(), 4U) << "they count as edges all the same";
}

TEST_F(EdgeFollowerTest, PutsTwoFilesInOneOrder) {
  append(file("online"), line(1, 1, "online") + line(3, 1, "online"));
  append(file("offline"), line(2, 1, "offline") + line(4, 1, "offline"));
  EdgeFollower follower(setup_for({file("online"), file("offline")}));
  catch_up(follower);
  const auto edges = take(first);
  ASSERT_EQ(edges.size(), 4U);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    EXPECT_EQ(edges[i].edge.kind, i % 2 == 0 ? Kind::kOnline : Kind::kOffline) << i;
  }
  EXPECT_EQ(follower.stats().reordered.value(), 0U);
}

}  // namespace
}  // namespace pulsewheel::sim
