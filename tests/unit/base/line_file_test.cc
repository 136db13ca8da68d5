#include "daemon/base/line_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using test::read_file;
using test::write_file;

/// What a descriptor has to give without waiting.
std::string drain(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string text;
  std::array<char, 4096> bytes{};
  for (ssize_t n = 0; (n = ::read(fd, bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<std::size_t>(n));
  }
  return text;
}

class LineFileTest : public testing::Test {
 protected:
  LineFile open() { return LineFile(options_); }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_ / "lines";
  LineFile::Options options_{path_, 0, 0, {}};
};

TEST_F(LineFileTest, AppendsWholeLines) {
  write_file(path_, "old\n");
  LineFile file = open();
  const auto result = file.write("one\ntwo\n");
  EXPECT_EQ(result.accepted, 8U);
  EXPECT_FALSE(result.error);
  EXPECT_EQ(read_file(path_), "old\none\ntwo\n");
}

TEST_F(LineFileTest, MakesTheFileWithoutRightsForOthers) {
  const LineFile file = open();
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0707U, 0600U);
}

/// A line that a crash left torn, by what the file ends with.
TEST_F(LineFileTest, ATornLineAtTheEndIsCutOff) {
  struct Case {
    std::string before, after;
  };
  const std::string long_line(10'000, 'x');
  for (const auto& [before, after] : std::initializer_list<Case>{
           {"", "new\n"},
           {"torn", "new\n"},
           {"a\ntorn", "a\nnew\n"},
           {"a\n", "a\nnew\n"},
           {long_line + "\ntorn", long_line + "\nnew\n"},
           {long_line, long_line + "\nnew\n"}}) {  // too long to be ours: kept, but ended
    write_file(path_, before);
    LineFile file = open();
    EXPECT_FALSE(file.write("new\n").error);
    EXPECT_EQ(read_file(path_), after);
  }
}

/// Every number of bytes that a write may take of two lines: never a torn line in the file, and
/// what is accepted plus the rest is everything, once.
TEST_F(LineFileTest, AWriteCutAnywhereLeavesWholeLines) {
  const std::string lines = "first line\nsecond line\n";
  for (std::size_t cut = 0; cut <= lines.size(); ++cut) {
    std::filesystem::remove(path_);
    bool full = true;
    options_.calls.write = [&](int fd, const void* bytes, std::size_t size) -> ssize_t {
      if (full && cut == 0) return errno = ENOSPC, -1;
      return ::write(fd, bytes, full ? std::min(size, cut) : size);
    };
    LineFile file = open();
    const auto result = file.write(lines);
    EXPECT_EQ(result.error, cut < lines.size() ? std::errc::no_space_on_device : std::errc{})
        << cut;
    EXPECT_EQ(read_file(path_), lines.substr(0, result.accepted)) << cut;
    EXPECT_TRUE(result.accepted == 0 || lines[result.accepted - 1] == '\n') << cut;
    full = false;
    EXPECT_FALSE(file.write(lines.substr(result.accepted)).error);
    EXPECT_EQ(read_file(path_), lines) << cut;
  }
}

TEST_F(LineFileTest, ATornLineThatCannotBeCutIsFinishedFirst) {
  std::size_t room = 15;
  options_.calls.write = [&](int fd, const void* bytes, std::size_t size) -> ssize_t {
    const std::size_t some = std::min(size, room);
    room -= some;
    if (some == 0) return errno = ENOSPC, -1;
    return ::write(fd, bytes, some);
  };
  options_.calls.ftruncate = [](int, off_t) { return errno = EPERM, -1; };
  LineFile file = open();
  const std::string lines = "first line\nsecond line\nthird line\n";
  const auto result = file.write(lines);
  EXPECT_TRUE(result.error);
  EXPECT_EQ(result.accepted, lines.find("third"));  // the begun line is the file's business now
  room = 1'000;
  EXPECT_FALSE(file.write(lines.substr(result.accepted)).error);
  EXPECT_EQ(read_file(path_), lines);
}

TEST_F(LineFileTest, AnInterruptedWriteIsRepeated) {
  int interruptions = 3;
  options_.calls.write = [&](int fd, const void* bytes, std::size_t size) -> ssize_t {
    if (interruptions-- > 0) return errno = EINTR, -1;
    return ::write(fd, bytes, size);
  };
  LineFile file = open();
  EXPECT_FALSE(file.write("line\n").error);
  EXPECT_EQ(read_file(path_), "line\n");
}

TEST_F(LineFileTest, AfterAnErrorThePathIsOpenedAgain) {
  bool broken = true;
  options_.calls.write = [&](int fd, const void* bytes, std::size_t size) -> ssize_t {
    if (broken) return errno = EIO, -1;
    return ::write(fd, bytes, size);
  };
  LineFile file = open();
  EXPECT_EQ(file.write("line\n").error, std::errc::io_error);
  broken = false;
  std::filesystem::remove(path_);  // the operator made room, say
  EXPECT_FALSE(file.write("line\n").error);
  EXPECT_EQ(read_file(path_), "line\n");
}

TEST_F(LineFileTest, DevFullTakesNothing) {
  options_.path = "/dev/full";
  LineFile file = open();
  const auto result = file.write("line\n");
  EXPECT_EQ(result.accepted, 0U);
  EXPECT_EQ(result.error, std::errc::no_space_on_device);
}

TEST_F(LineFileTest, RotationKeepsTheNewestFiles) {
  options_.rotate_bytes = 10;
  options_.rotate_keep = 2;
  LineFile file = open();
  for (const char* line : {"1 short\n", "2 now it is full\n", "3 full at once\n", "4 full again\n"})
    ASSERT_FALSE(file.write(line).error);
  ASSERT_FALSE(file.write("5\n").error);
  EXPECT_EQ(read_file(path_), "5\n");
  EXPECT_EQ(read_file(path_ + ".1"), "4 full again\n");
  EXPECT_EQ(read_file(path_ + ".2"), "3 full at once\n");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".3"));
}

TEST_F(LineFileTest, RotationBeginsAtExactlyTheSize) {
  options_.rotate_bytes = 4;
  options_.rotate_keep = 1;
  LineFile file = open();
  ASSERT_FALSE(file.write("ab\n").error);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
  ASSERT_FALSE(file.write("\n").error);
  EXPECT_EQ(read_file(path_ + ".1"), "ab\n\n");
}

TEST_F(LineFileTest, RotationWithoutKeptFilesStartsOver) {
  options_.rotate_bytes = 1;
  LineFile file = open();
  ASSERT_FALSE(file.write("gone\n").error);
  EXPECT_EQ(read_file(path_), "");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
}

TEST_F(LineFileTest, ChangedRotationHoldsFromTheNextWriteOn) {
  LineFile file = open();
  ASSERT_FALSE(file.write("abc\n").error);
  file.set_rotation(4, 1);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
  ASSERT_FALSE(file.write("def\n").error);
  EXPECT_EQ(read_file(path_ + ".1"), "abc\ndef\n");
  file.set_rotation(0, 0);
  ASSERT_FALSE(file.write("ghi\njkl\n").error);
  EXPECT_EQ(read_file(path_), "ghi\njkl\n");
}

TEST_F(LineFileTest, ARotationThatFailsIsCountedAndTheFileGoesOn) {
  std::filesystem::create_directory(path_ + ".1");  // a file cannot take its place
  options_.rotate_bytes = 4;
  options_.rotate_keep = 1;
  LineFile file = open();
  EXPECT_FALSE(file.write("abc\n").error);
  EXPECT_EQ(file.rotate_errors(), 1U);
  EXPECT_FALSE(file.write("d\n").error);
  EXPECT_EQ(file.rotate_errors(), 1U);  // not at each write
  EXPECT_EQ(read_file(path_), "abc\nd\n");
}

TEST_F(LineFileTest, ANamedPipeWithoutAReaderIsOpenedWhenOneComes) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  LineFile file = open();
  EXPECT_EQ(file.write("line\n").error, std::errc::no_such_device_or_address);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_FALSE(file.write("line\n").error);
  EXPECT_EQ(drain(reader), "line\n");
  ::close(reader);
}

/// Fills `file` until it refuses; returns what it accepted.
std::string fill(LineFile& file, const std::string& line) {
  std::string lines;
  while (lines.size() < 2'000)
    lines += line;
  std::string accepted;
  for (LineFile::Result result; !result.error;) {
    result = file.write(lines);
    accepted += lines.substr(0, result.accepted);
  }
  return accepted;
}

TEST_F(LineFileTest, AFullPipeRefusesWithoutWaitingAndLosesNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);  // blocking, as an inherited one is
  LineFile file(ends[1], "pipe");
  const std::string accepted = fill(file, "a line of some length\n");
  EXPECT_EQ(drain(ends[0]), accepted);
  EXPECT_FALSE(file.write("more\n").error);
  EXPECT_EQ(drain(ends[0]), "more\n");
  for (const int fd : ends)
    ::close(fd);
}

TEST_F(LineFileTest, ALineLongerThanAPipeTakesAtOnceArrivesWhole) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  LineFile file(ends[1], "pipe");
  const std::string line = std::string(3 * PIPE_BUF, 'x') + "\n";
  std::string expected;
  LineFile::Result result;
  for (int i = 0; i < 20 && !result.error; ++i) {
    result = file.write(line);
    if (result.accepted > 0) expected += line;
  }
  EXPECT_TRUE(result.error);
  std::string got = drain(ends[0]);
  EXPECT_FALSE(file.write("next\n").error);
  got += drain(ends[0]);
  EXPECT_EQ(got, expected + "next\n");
  for (const int fd : ends)
    ::close(fd);
}

TEST_F(LineFileTest, ASocketThatIsFullIsFinishedLater) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  LineFile file(ends[1], "socket");
  std::string expected = fill(file, "a line of some length\n");
  std::string got = drain(ends[0]);
  EXPECT_FALSE(file.write("more\n").error);
  got += drain(ends[0]);
  EXPECT_EQ(got, expected + "more\n");
  for (const int fd : ends)
    ::close(fd);
}

TEST_F(LineFileTest, AnInheritedDescriptorStaysOpen) {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT, 0600);
  { LineFile file(fd, "inherited"); }
  EXPECT_EQ(::write(fd, "x", 1), 1);
  ::close(fd);
}

TEST(LineOutputTest, WaitsLongerAfterEachFailureAndNotAtAllAfterSuccess) {
  const test::TemporaryFolder folder;
  bool full = true;
  int attempts = 0;
  LineOutput output(LineFile({folder / "lines",
                              0,
                              0,
                              {[&](int fd, const void* bytes, std::size_t size) -> ssize_t {
                                 ++attempts;
                                 if (full) return errno = ENOSPC, -1;
                                 return ::write(fd, bytes, size);
                               },
                               {}}}));
  output.buffer() = "line\n";
  MonoTime now{std::chrono::hours{1}};
  Duration expected = LineOutput::kRetryMin;
  for (int failure = 1; failure <= 12; ++failure) {
    EXPECT_EQ(output.flush(now), 0U);
    ASSERT_EQ(output.retry_at(), now + expected);
    EXPECT_EQ(output.flush(now + expected - Duration{1}), 0U);  // not yet
    EXPECT_EQ(attempts, failure);
    now += expected;
    expected = std::min(expected * 2, LineOutput::kRetryMax);
  }
  EXPECT_EQ(output.errors(), 12U);
  full = false;
  EXPECT_EQ(output.flush(now), 5U);
  EXPECT_EQ(output.retry_at(), std::nullopt);
}

TEST(LineOutputTest, RetryNowDoesNotWait) {
  const test::TemporaryFolder folder;
  LineOutput output(LineFile({"/dev/full", 0, 0, {}}));
  output.buffer() = "line\n";
  const MonoTime now{std::chrono::hours{1}};
  static_cast<void>(output.flush(now));
  output.retry_now();
  static_cast<void>(output.flush(now));
  EXPECT_EQ(output.errors(), 2U);
}

}  // namespace
}  // namespace pulsewheel
