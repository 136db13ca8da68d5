#include "tests/client_sim/followed_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pulsewheel::sim {
namespace {

namespace fs = std::filesystem;

class FollowedFileTest : public testing::Test {
 protected:
  FollowedFileTest() {
    std::string name = fs::temp_directory_path() / "pulsewheel-followed-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path = folder_ / "events.jsonl";
  }
  ~FollowedFileTest() override { fs::remove_all(folder_); }

  void append(const std::string& text) { std::ofstream(path, std::ios::app) << text; }
  std::vector<std::string> read(FollowedFile& file) {
    std::vector<std::string> lines;
    file.read([&](std::string_view line, MonoTime) { lines.emplace_back(line); });
    return lines;
  }

  using Lines = std::vector<std::string>;
  fs::path path;

 private:
  fs::path folder_;
};

TEST_F(FollowedFileTest, ReadsWhatIsAdded) {
  append("one\n");
  FollowedFile file(path, /*from_start=*/true);
  EXPECT_EQ(read(file), Lines{"one"});
  append("two\nthree\n");
  EXPECT_EQ(read(file), (Lines{"two", "three"}));
  EXPECT_EQ(read(file), Lines{});
}

TEST_F(FollowedFileTest, SkipsWhatWasThere) {
  append("one\n");
  FollowedFile file(path, /*from_start=*/false);
  append("two\n");
  EXPECT_EQ(read(file), Lines{"two"});
}

TEST_F(FollowedFileTest, WaitsForTheRestOfALine) {
  append("on");
  FollowedFile file(path, /*from_start=*/true);
  EXPECT_EQ(read(file), Lines{});
  append("e\nt");
  EXPECT_EQ(read(file), Lines{"one"});
  append("wo\n");
  EXPECT_EQ(read(file), Lines{"two"});
}

TEST_F(FollowedFileTest, WaitsForAFileThatIsNotThereYet) {
  FollowedFile file(path, /*from_start=*/true);
  EXPECT_EQ(read(file), Lines{});
  append("one\n");
  EXPECT_EQ(read(file), Lines{"one"});
}

TEST_F(FollowedFileTest, FollowsTheNameAcrossRotation) {
  append("one\n");
  FollowedFile file(path, /*from_start=*/true);
  EXPECT_EQ(read(file), Lines{"one"});
  append("two\n");
  fs::rename(path, path.string() + ".1");
  append("three\n");
  EXPECT_EQ(read(file), (Lines{"two", "three"}));
}

TEST_F(FollowedFileTest, ReadsABurstThatIsLongerThanItsBuffer) {
  std::string burst;
  for (int i = 0; i < 100'000; ++i)
    burst += std::to_string(i) + "\n";
  append(burst);
  FollowedFile file(path, /*from_start=*/true);
  const Lines lines = read(file);
  ASSERT_EQ(lines.size(), 100'000U);
  for (int i = 0; i < 100'000; ++i)
    ASSERT_EQ(lines[static_cast<std::size_t>(i)], std::to_string(i));
}

TEST_F(FollowedFileTest, StampsALineWithTheReadThatEndedIt) {
  append("one");
  FollowedFile file(path, /*from_start=*/true);
  EXPECT_EQ(read(file), Lines{});
  const MonoTime before = MonoClock::now();
  append("\n");
  file.read([&](std::string_view, MonoTime seen_at) { EXPECT_GE(seen_at, before); });
}

TEST_F(FollowedFileTest, CannotFollowWhatCannotBeOpened) {
  EXPECT_THROW(FollowedFile("/dev/null/events.jsonl", true), std::system_error);
}

}  // namespace
}  // namespace pulsewheel::sim
