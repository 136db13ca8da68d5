#include "daemon/base/siphash.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

// The key and messages of the paper's appendix A: bytes 00 01 02 ...
constexpr SipKey kPaperKey{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};

std::string counting_bytes(std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i)
    bytes.push_back(static_cast<char>(i));
  return bytes;
}

TEST(SipHashTest, GivesThePapersValueForItsMessage) {
  EXPECT_EQ((siphash<2, 4>(counting_bytes(15), kPaperKey)), 0xa129ca6149be45e5U);
}

TEST(SipHashTest, GivesTheReferenceValuesForShortMessages) {
  EXPECT_EQ((siphash<2, 4>("", kPaperKey)), 0x726fdb47dd0e0e31U);
  EXPECT_EQ((siphash<2, 4>(counting_bytes(8), kPaperKey)), 0x93f5f5799a932462U);
}

TEST(SipHashTest, OneThreeGivesWhatCPythonGives) {
  // hash(b"...") with PYTHONHASHSEED=0, since 3.11: SipHash-1-3 with a key of zeros.
  EXPECT_EQ(static_cast<std::int64_t>(siphash13("a", {})), 4644417185603328019);
  EXPECT_EQ(static_cast<std::int64_t>(siphash13("abcdefgh", {})), 4574395652268504554);
  EXPECT_EQ(static_cast<std::int64_t>(siphash13("abcdefghijklmnopqrstuvwxyz0123456789", {})),
            -99395660548226206);
}

TEST(SipHashTest, DependsOnEveryByteOnTheLengthAndOnBothHalvesOfTheKey) {
  std::set<std::uint64_t> hashes;
  for (std::size_t size = 0; size <= 128; ++size)
    hashes.insert(siphash13(std::string(size, '\0'), {}));
  for (std::size_t i = 0; i < 128; ++i) {
    std::string bytes(128, '\0');
    bytes[i] = 1;
    hashes.insert(siphash13(bytes, {}));
  }
  hashes.insert(siphash13("", {1, 0}));
  hashes.insert(siphash13("", {0, 1}));
  EXPECT_EQ(hashes.size(), 129U + 128U + 2U);
}

}  // namespace
}  // namespace pulsewheel
