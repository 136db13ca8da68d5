// UidNames: the uids of the simulator's users, and back from a uid to the user's number.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pulsewheel::sim {

/// uids are 16 bytes long, as those of the memory figures: "sTTTTTT-NNNNNNNN" with a tag of the
/// run and the user's number. They need no escaping anywhere. Two runs against one daemon get
/// different tags, so that a user whom the first left behind is nobody in the second.
class UidNames {
 public:
  static constexpr std::size_t kSize = 16;
  using Buffer = std::array<char, kSize>;

  /// The low 24 bits of `run` are the tag.
  explicit UidNames(std::uint64_t run) noexcept;

  /// Writes the uid of `user` (below 10^8) to `out` and returns a view of it.
  std::string_view write(std::uint32_t user, Buffer& out) const noexcept;
  /// nullopt for a uid that is not of this run.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view uid) const noexcept;

 private:
  static constexpr std::size_t kPrefixSize = 8;
  std::array<char, kPrefixSize> prefix_{};
};

}  // namespace pulsewheel::sim
