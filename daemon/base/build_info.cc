#include "daemon/base/build_info.h"

namespace pulsewheel {

const BuildInfo& build_info() noexcept {
  static constexpr BuildInfo kBuildInfo{PULSEWHEEL_VERSION, PULSEWHEEL_COMMIT, PULSEWHEEL_COMPILER,
                                        PULSEWHEEL_BUILD_TYPE};
  return kBuildInfo;
}

std::string version_line(std::string_view program) {
  const BuildInfo& build = build_info();
  std::string line(program);
  line.append(" ").append(build.version).append(" (commit ").append(build.commit);
  line.append(", ").append(build.compiler).append(", ").append(build.type).append(")");
  return line;
}

}  // namespace pulsewheel
