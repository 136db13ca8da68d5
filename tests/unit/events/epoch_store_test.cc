#include "daemon/events/epoch_store.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using test::read_file;
using test::write_file;

/// What the constructor says; empty when it says nothing.
std::string error_of(const std::string& state_dir) {
  try {
    const EpochStore store(state_dir);
    return "";
  } catch (const StateError& error) {
    return error.what();
  }
}

TEST(EpochStoreTest, TheFirstStartHasEpochOne) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(EpochStore(folder.path()).epoch(), 1U);
}

TEST(EpochStoreTest, EachStartHasTheNextEpoch) {
  const test::TemporaryFolder folder;
  for (std::uint32_t start = 1; start <= 12; ++start) {
    EXPECT_EQ(EpochStore(folder.path()).epoch(), start);
  }
}

TEST(EpochStoreTest, TheEpochIsStoredWhenItIsGivenOut) {
  const test::TemporaryFolder folder;
  write_file(folder / "epoch", "41\n");
  const EpochStore store(folder.path());
  EXPECT_EQ(store.epoch(), 42U);
  EXPECT_EQ(read_file(folder / "epoch"), "42\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "epoch.tmp"));
}

TEST(EpochStoreTest, TheFirstStartFollowsNoCrash) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(EpochStore(folder.path()).after_crash());
}

TEST(EpochStoreTest, ARunThatDidNotSayThatItEndsHasCrashed) {
  const test::TemporaryFolder folder;
  { const EpochStore killed(folder.path()); }
  EXPECT_TRUE(EpochStore(folder.path()).after_crash());
}

TEST(EpochStoreTest, ARunThatSaidThatItEndsHasNotCrashed) {
  const test::TemporaryFolder folder;
  EpochStore(folder.path()).mark_end();
  EXPECT_FALSE(EpochStore(folder.path()).after_crash());
}

TEST(EpochStoreTest, TheMarkOfAnEarlierRunDoesNotCount) {
  const test::TemporaryFolder folder;
  EpochStore(folder.path()).mark_end();
  { const EpochStore killed(folder.path()); }
  EXPECT_TRUE(EpochStore(folder.path()).after_crash());
}

TEST(EpochStoreTest, ADamagedMarkIsNone) {
  for (const char* content : {"", "1", "1\n\n", "x\n", "0\n", "2\n"}) {
    const test::TemporaryFolder folder;
    { const EpochStore killed(folder.path()); }
    write_file(folder / "ended", content);
    EXPECT_TRUE(EpochStore(folder.path()).after_crash()) << content;
  }
}

TEST(EpochStoreTest, AFolderOfAVersionWithoutMarksIsThatOfACrash) {
  const test::TemporaryFolder folder;
  write_file(folder / "epoch", "41\n");
  const EpochStore store(folder.path());
  EXPECT_EQ(store.epoch(), 42U);
  EXPECT_TRUE(store.after_crash());
}

TEST(EpochStoreTest, AFolderKeepsItsIdAndEachHasAnother) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder other;
  const FolderId id = EpochStore(folder.path()).folder_id();
  EXPECT_EQ(EpochStore(folder.path()).folder_id(), id);
  EXPECT_NE(EpochStore(other.path()).folder_id(), id);
  EXPECT_NE(id, FolderId{});
}

TEST(EpochStoreTest, ADamagedIdIsReplaced) {
  const test::TemporaryFolder folder;
  const FolderId id = EpochStore(folder.path()).folder_id();
  for (const std::string& content : {std::string(), std::string("\n"), std::string(32, 'x') + '\n',
                                     std::string(33, 'a'), std::string(100, 'a')}) {
    write_file(folder / "id", content);
    const FolderId next = EpochStore(folder.path()).folder_id();
    EXPECT_NE(next, id);
    EXPECT_EQ(EpochStore(folder.path()).folder_id(), next);
  }
}

TEST(EpochStoreTest, AMarkThatCannotBeWrittenIsAnError) {
  const test::TemporaryFolder folder;
  EpochStore store(folder.path());
  std::filesystem::create_directory(folder / "ended.tmp");
  EXPECT_THROW(store.mark_end(), StateError);
}

TEST(EpochStoreTest, MakesTheFolderAndItsParents) {
  const test::TemporaryFolder folder;
  const std::string state_dir = folder / "a/b";
  const EpochStore store(state_dir);
  struct stat info {};
  ASSERT_EQ(::stat(state_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0707U, 0700U);  // nothing for others; the group's part is the umask's
}

TEST(EpochStoreTest, TwoDaemonsCannotShareAFolder) {
  const test::TemporaryFolder folder;
  const EpochStore first(folder.path());
  const std::string error = error_of(folder.path());
  EXPECT_NE(error.find(folder.path()), std::string::npos) << error;
  EXPECT_NE(error.find("in use by another daemon"), std::string::npos) << error;
  EXPECT_EQ(read_file(folder / "epoch"), "1\n");
}

TEST(EpochStoreTest, DamagedContentIsAnErrorThatNamesFileAndCure) {
  using namespace std::string_literals;
  for (const std::string& content :
       {""s, "\n"s, "7"s, "7\n\n"s, " 7\n"s, "+7\n"s, "-7\n"s, "0\n"s, "7x\n"s, "x\n"s, "7\0\n"s,
        "16777216\n"s, "4294967296\n"s, std::string(100, '1')}) {
    const test::TemporaryFolder folder;
    write_file(folder / "epoch", content);
    const std::string error = error_of(folder.path());
    EXPECT_NE(error.find(folder / "epoch"), std::string::npos) << content << ": " << error;
    EXPECT_NE(error.find("Write a number greater"), std::string::npos) << content << ": " << error;
    EXPECT_EQ(read_file(folder / "epoch"), content);
  }
}

TEST(EpochStoreTest, TheLastEpochIsGivenOutOnce) {
  const test::TemporaryFolder folder;
  write_file(folder / "epoch", "16777214\n");
  EXPECT_EQ(EpochStore(folder.path()).epoch(), EpochStore::kEpochMax);
  const std::string error = error_of(folder.path());
  EXPECT_NE(error.find("last epoch"), std::string::npos) << error;
}

TEST(EpochStoreTest, AFileInPlaceOfTheFolderIsNamed) {
  const test::TemporaryFolder folder;
  write_file(folder / "state", "");
  const std::string error = error_of(folder / "state");
  EXPECT_NE(error.find(folder / "state"), std::string::npos) << error;
  EXPECT_NE(error.find("not a folder"), std::string::npos) << error;
}

TEST(EpochStoreTest, AFolderThatCannotBeMadeIsNamed) {
  const std::string error = error_of("/proc/pulsewheel/state");
  EXPECT_NE(error.find("'/proc/pulsewheel'"), std::string::npos) << error;
}

TEST(EpochStoreTest, AFolderThatCannotBeWrittenIsNamed) {
  const std::string error = error_of("/proc/self");  // nobody makes files there, not even root
  EXPECT_TRUE(error.starts_with("cannot use the state folder: cannot open '/proc/self/lock': "))
      << error;
}

TEST(EpochStoreTest, AnEpochThatCannotBeReplacedIsAnErrorAndLeavesNoTemporaryFile) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "epoch.tmp");
  const std::string error = error_of(folder.path());
  EXPECT_NE(error.find(folder / "epoch.tmp"), std::string::npos) << error;
  EXPECT_FALSE(std::filesystem::exists(folder / "epoch"));
}

TEST(EpochStoreTest, AFailedStartReleasesTheFolder) {
  const test::TemporaryFolder folder;
  write_file(folder / "epoch", "damaged");
  EXPECT_NE(error_of(folder.path()), "");
  write_file(folder / "epoch", "7\n");
  EXPECT_EQ(EpochStore(folder.path()).epoch(), 8U);
}

}  // namespace
}  // namespace pulsewheel
