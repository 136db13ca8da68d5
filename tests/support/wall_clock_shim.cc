// A library for LD_PRELOAD that shifts the wall clock of one process, and only that one: every
// other clock stays true. The shift, in nanoseconds as an std::int64_t, is read at each call from
// the file that PULSEWHEEL_TEST_WALL_SHIFT names, so that a test can let the clock jump under a
// running daemon.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

using Shift = std::atomic<std::int64_t>;
static_assert(Shift::is_always_lock_free);

const Shift* map_shift() {
  static const Shift kNone{0};
  const char* const path = std::getenv("PULSEWHEEL_TEST_WALL_SHIFT");
  if (path == nullptr) return &kNone;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, sizeof(Shift), PROT_READ, MAP_SHARED, fd, 0);
  if (fd == -1 || memory == MAP_FAILED) std::abort();  // a test that shifts nothing proves nothing
  ::close(fd);
  return static_cast<const Shift*>(memory);
}

std::int64_t shift() {
  static const Shift* const kShift = map_shift();
  return kShift->load(std::memory_order_relaxed);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, out));
  if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const std::int64_t now = out->tv_sec * kNanosecondsPerSecond + out->tv_nsec + shift();
  out->tv_sec = now / kNanosecondsPerSecond;
  out->tv_nsec = now % kNanosecondsPerSecond;
  return 0;
}

int gettimeofday(timeval* out, void* /*zone*/) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1'000;
  return 0;
}

time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
