// What this build is: version, commit, compiler. The same answer in every program.
#pragma once

#include <string>
#include <string_view>

namespace pulsewheel {

struct BuildInfo {
  std::string_view version;   // "0.1.0"
  std::string_view commit;    // short id of the commit at configure time, or "unknown"
  std::string_view compiler;  // "GNU 12.2.0"
  std::string_view type;      // CMake's build type: "Release"
};

[[nodiscard]] const BuildInfo& build_info() noexcept;

/// The line that `program --version` prints, without a newline:
/// "pulsewheeld 0.1.0 (commit 1a2b3c4d5e6f, GNU 12.2.0, Release)".
[[nodiscard]] std::string version_line(std::string_view program);

}  // namespace pulsewheel
