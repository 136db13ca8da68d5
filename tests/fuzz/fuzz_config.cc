// Fuzzes the loading of a configuration. The input up to the first NUL is the file, which may hold
// none; each piece behind that is a --set, or a variable when it begins with PULSEWHEEL_. Beside
// what the sanitizers find, it holds the loader to two promises: what it accepts prints as
// something that loads to the same, and what it refuses it explains in a few printable lines.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/config.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kProblemLinesMax = 21;  // twenty and "and N more"

void require(bool holds) {
  if (!holds) std::abort();
}

/// Takes the text before the first NUL off the front of `input`.
std::string take_piece(std::string_view& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string piece{input.substr(0, end)};
  input.remove_prefix(std::min(end + 1, input.size()));
  return piece;
}

bool is_printable(std::string_view line) {
  return std::none_of(line.begin(), line.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

void check(std::string_view input) {
  const std::string file = take_piece(input);
  ConfigSource source{"fuzz.toml", {}, {}};
  while (!input.empty()) {
    const std::string piece = take_piece(input);
    const std::size_t equals = piece.find('=');
    if (piece.starts_with("PULSEWHEEL_") && equals != std::string::npos) {
      source.env.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    } else {
      source.sets.push_back(piece);
    }
  }
  try {
    const Config config = load_config_text(file, source);
    require(load_config_text(print_config(config), {}) == config);
  } catch (const ConfigError& error) {
    require(!error.problems().empty() && error.problems().size() <= kProblemLinesMax);
    for (const std::string& problem : error.problems())
      require(is_printable(problem));
  }
}

}  // namespace
}  // namespace pulsewheel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pulsewheel::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
