// SipHash: a keyed hash of byte strings that peers choose.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pulsewheel {

/// Whoever does not know the key cannot make two strings collide, so a hash table of names that
/// peers choose stays O(1).
struct SipKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

namespace siphash_detail {

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie in memory");

inline std::uint64_t load(const char* bytes, std::size_t size) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return word;
}

struct State {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int count) noexcept {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
};

}  // namespace siphash_detail

/// SipHash-c-d (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). O(size), no
/// allocation, any thread.
template <int kCompressionRounds, int kFinalRounds>
[[nodiscard]] std::uint64_t siphash(std::string_view bytes, SipKey key) noexcept {
  using siphash_detail::load;
  siphash_detail::State s{key.k0 ^ 0x736f6d6570736575U, key.k1 ^ 0x646f72616e646f6dU,
                          key.k0 ^ 0x6c7967656e657261U, key.k1 ^ 0x7465646279746573U};
  const auto absorb = [&s](std::uint64_t word) {
    s.v3 ^= word;
    s.rounds(kCompressionRounds);
    s.v0 ^= word;
  };
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8)
    absorb(load(at, 8));
  // The last word: what is left of the string, and its length modulo 256 in the top byte.
  absorb(static_cast<std::uint64_t>(bytes.size()) << 56 | (left == 0 ? 0 : load(at, left)));
  s.v2 ^= 0xff;
  s.rounds(kFinalRounds);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/// The variant for hash tables: its authors' choice where an attacker sees no hash values.
[[nodiscard]] inline std::uint64_t siphash13(std::string_view bytes, SipKey key) noexcept {
  return siphash<1, 3>(bytes, key);
}

}  // namespace pulsewheel
