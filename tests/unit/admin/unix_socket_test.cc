#include "daemon/admin/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <system_error>

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using testing::HasSubstr;

std::system_error bind_error(const std::string& path) {
  try {
    const UnixSocketFile socket(path, 0600);
  } catch (const std::system_error& e) {
    return e;
  }
  ADD_FAILURE() << path << " was taken";
  return std::system_error(std::error_code());
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

/// A bound socket whose owner went without removing the file.
void leave_stale_socket(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

class UnixSocketTest : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "socket";
};

TEST_F(UnixSocketTest, HasItsModeWhateverTheUmask) {
  for (const mode_t umask : {0777U, 0U}) {
    const mode_t before = ::umask(umask);
    const UnixSocketFile socket(path_, 0640);
    ::umask(before);
    EXPECT_EQ(mode_of(path_), 0640U);
  }
}

TEST_F(UnixSocketTest, RemovesItsFileWhenItGoes) {
  { const UnixSocketFile socket(path_, 0600); }
  EXPECT_FALSE(exists(path_));
}

TEST_F(UnixSocketTest, LeavesAFileThatHasTakenItsName) {
  {
    const UnixSocketFile socket(path_, 0600);
    ::unlink(path_.c_str());
    write_file(path_, "another one's");
  }
  EXPECT_EQ(read_file(path_), "another one's");
}

TEST_F(UnixSocketTest, ReplacesWhatADeadDaemonLeft) {
  leave_stale_socket(path_);
  ASSERT_TRUE(exists(path_));
  const UnixSocketFile socket(path_, 0600);
  EXPECT_EQ(mode_of(path_), 0600U);
}

TEST_F(UnixSocketTest, IsNotStolenFromOneThatListens) {
  UnixSocketFile first(path_, 0600);
  const int listening = first.release_descriptor();
  ASSERT_EQ(::listen(listening, 0), 0);
  // More than its backlog takes: a probe that is refused for that must not look like nobody there.
  for (int i = 0; i < 3; ++i) {
    const std::system_error error = bind_error(path_);
    EXPECT_EQ(error.code(), std::errc::address_in_use);
    EXPECT_THAT(error.what(), HasSubstr(path_));
  }
  EXPECT_TRUE(exists(path_));
  ::close(listening);
}

TEST_F(UnixSocketTest, NeverReplacesAFileThatIsNoSocket) {
  write_file(path_, "a file");
  EXPECT_EQ(bind_error(path_).code(), std::errc::file_exists);
  EXPECT_EQ(read_file(path_), "a file");
}

TEST_F(UnixSocketTest, DoesNotFollowALinkToAnotherSocket) {
  leave_stale_socket(folder_ / "other");
  ASSERT_EQ(::symlink((folder_ / "other").c_str(), path_.c_str()), 0);
  EXPECT_EQ(bind_error(path_).code(), std::errc::file_exists);
  EXPECT_TRUE(exists(folder_ / "other"));
}

TEST_F(UnixSocketTest, NamesAPathThatCannotBe) {
  const std::system_error missing = bind_error(folder_ / "no/socket");
  EXPECT_EQ(missing.code(), std::errc::no_such_file_or_directory);
  EXPECT_THAT(missing.what(), HasSubstr("/no/socket"));
  EXPECT_EQ(bind_error("/" + std::string(107, 'x')).code(), std::errc::filename_too_long);
}

}  // namespace
}  // namespace pulsewheel
