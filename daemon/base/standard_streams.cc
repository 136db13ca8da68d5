#include "daemon/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace pulsewheel {

void occupy_closed_standard_streams() noexcept {
  // The kernel hands out the lowest free number.
  for (;;) {
    const int opened = ::open("/dev/null", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (opened >= STDIN_FILENO && opened <= STDERR_FILENO) continue;
    if (opened > STDERR_FILENO) ::close(opened);
    return;
  }
}

}  // namespace pulsewheel
