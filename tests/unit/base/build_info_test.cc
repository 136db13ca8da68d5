#include "daemon/base/build_info.h"

#include <gmock/gmock.h>

namespace pulsewheel {
namespace {

TEST(BuildInfoTest, VersionLineNamesProgramVersionCommitAndCompiler) {
  const BuildInfo& build = build_info();
  EXPECT_THAT(std::string(build.version), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(version_line("some-program"),
            "some-program " + std::string(build.version) + " (commit " + std::string(build.commit) +
                ", " + std::string(build.compiler) + ", " + std::string(build.type) + ")");
}

TEST(BuildInfoTest, NothingIsEmpty) {
  EXPECT_NE(build_info().commit, "");
  EXPECT_NE(build_info().compiler, "");
  EXPECT_NE(build_info().type, "");
}

}  // namespace
}  // namespace pulsewheel
