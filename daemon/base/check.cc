#include "daemon/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pulsewheel {

void check_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "pulsewheel: broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace pulsewheel
