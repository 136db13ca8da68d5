#include "daemon/events/snapshot_file.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/unit/events/snapshot_testing.h"

namespace pulsewheel {
namespace {

namespace fs = std::filesystem;
using test::folder_id;
using test::read_file;
using test::snapshot_bytes;
using test::two_users;
using test::write_file;

class SnapshotFileTest : public ::testing::Test {
 protected:
  SnapshotFile open(std::uint32_t epoch = 8) { return {folder_.path(), folder_id(5), epoch}; }
  // What is wrong with a file of this content.
  std::string problem_of(const std::string& content, std::uint32_t epoch = 8) {
    write_file(path_, content);
    const SnapshotFile file = open(epoch);
    EXPECT_EQ(file.state(), SnapshotFile::State::kUnfit);
    return file.problem();
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "snapshot";
};

TEST_F(SnapshotFileTest, AFolderWithoutOneHasNone) {
  EXPECT_EQ(open().state(), SnapshotFile::State::kNone);
}

TEST_F(SnapshotFileTest, AGoodOneIsReadAgainUserByUser) {
  write_file(path_, snapshot_bytes(two_users(), 3'000));
  const SnapshotFile file = open();
  ASSERT_EQ(file.state(), SnapshotFile::State::kGood) << file.problem();
  EXPECT_EQ(file.head().epoch, 7U);
  EXPECT_EQ(file.end().last_seq, 4711U);
  EXPECT_EQ(file.bytes(), fs::file_size(path_));
  std::size_t users = 0;
  file.read(MonoTime{}, [&users](const UserImageBatch& batch) { users += batch.size(); });
  EXPECT_EQ(users, 6'000U);
}

TEST_F(SnapshotFileTest, ADamagedOneIsUnfit) {
  const std::string good = snapshot_bytes(two_users());
  EXPECT_NE(problem_of("").find("it is cut off"), std::string::npos);
  EXPECT_NE(problem_of(good.substr(0, good.size() - 1)).find("it is cut off"), std::string::npos);
  EXPECT_NE(problem_of(good + "x").find("something follows its end"), std::string::npos);
  std::string flipped = good;
  flipped[60] = static_cast<char>(flipped[60] ^ 1);
  EXPECT_NE(problem_of(flipped).find("wrong checksum"), std::string::npos);
  EXPECT_NE(problem_of(flipped).find(path_), std::string::npos);
}

TEST_F(SnapshotFileTest, OneOfAnotherFolderIsUnfit) {
  write_file(path_, snapshot_bytes(two_users()));
  const SnapshotFile file(folder_.path(), folder_id(6), 8);
  EXPECT_EQ(file.state(), SnapshotFile::State::kUnfit);
  EXPECT_NE(file.problem().find("of another state folder"), std::string::npos);
}

TEST_F(SnapshotFileTest, OneOfAnEpochThatIsYetToComeIsUnfit) {
  EXPECT_NE(problem_of(snapshot_bytes(two_users()), 7).find("epoch 7"), std::string::npos);
}

TEST_F(SnapshotFileTest, OneOfANewerVersionIsUnfit) {
  std::string bytes = snapshot_bytes(two_users());
  bytes[snapshot_format::kStartBytes - 1] = 9;
  EXPECT_NE(problem_of(bytes).find("version 9"), std::string::npos);
}

TEST_F(SnapshotFileTest, AFolderOrAPipeOfThatNameIsUnfit) {
  fs::create_directory(path_);
  EXPECT_EQ(open().state(), SnapshotFile::State::kUnfit);
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(open().problem().find("it is no file"), std::string::npos);
}

TEST_F(SnapshotFileTest, AHugeOneIsNotRead) {
  write_file(path_, snapshot_bytes(two_users()));
  fs::resize_file(path_, SnapshotFile::kBytesMax + 1);
  EXPECT_NE(open().problem().find("bytes, and at most"), std::string::npos);
}

TEST_F(SnapshotFileTest, WhatIsSetAsideIsOutOfTheWay) {
  write_file(path_, "older");
  static_cast<void>(open().set_aside());
  write_file(path_, "rubbish");
  SnapshotFile file = open();
  EXPECT_NE(file.set_aside().find("snapshot.bad"), std::string::npos);
  EXPECT_EQ(read_file(path_ + ".bad"), "rubbish");
  EXPECT_EQ(open().state(), SnapshotFile::State::kNone);
}

TEST_F(SnapshotFileTest, TheRestOfAWriterThatWasKilledIsRemoved) {
  write_file(path_ + ".tmp", "half");
  static_cast<void>(open());
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
}

TEST_F(SnapshotFileTest, RemovesASnapshotForGood) {
  write_file(path_, "x");
  EXPECT_TRUE(remove_snapshot(folder_.path()));
  EXPECT_FALSE(remove_snapshot(folder_.path()));
  EXPECT_EQ(open().state(), SnapshotFile::State::kNone);
}

TEST(StateFileWriterTest, TheOldFileStaysUntilTheNewOneIsCommitted) {
  const test::TemporaryFolder folder;
  write_file(folder / "f", "old");
  {
    StateFileWriter writer(folder.path(), "f");
    writer.write("new");
    EXPECT_EQ(read_file(folder / "f"), "old");
  }
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_FALSE(fs::exists(folder / "f.tmp"));
  StateFileWriter writer(folder.path(), "f");
  writer.write("new");
  writer.commit();
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}

TEST(StateFileWriterTest, AFullDiskIsToldAndLeavesTheOldFile) {
  const test::TemporaryFolder folder;
  write_file(folder / "f", "old");
  fs::create_symlink("/dev/full", folder / "f.tmp");
  EXPECT_THROW(store_state_file(folder.path(), "f", "new"), StateError);
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder / "f.tmp")));
}

}  // namespace
}  // namespace pulsewheel
