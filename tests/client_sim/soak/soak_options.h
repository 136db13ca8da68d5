// SoakOptions: what the command line asks of a soak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/client_sim/options.h"

namespace pulsewheel::sim {

struct SoakOptions {
  std::string daemon;  // the program; empty: pulsewheeld beside this one
  Duration length = std::chrono::minutes{1};
  std::uint32_t connections = 3'000;
  std::optional<std::uint64_t> seed;  // nullopt: a new one, which is printed
  std::string report;                 // file for the figures as JSON; empty: none
  bool keep = false;                  // the daemon's state folder
  bool verbose = false;               // a line for each fault
};

/// Parses and checks. Throws UsageError. Returns nullopt after printing --help.
[[nodiscard]] std::optional<SoakOptions> parse_soak_options(int argc, const char* const* argv);

/// The clients of a soak, and the daemon that it starts: everything short, so that a minute has
/// many lives of a user in it.
[[nodiscard]] Options client_options(const SoakOptions& soak, std::uint64_t seed, Duration length);

}  // namespace pulsewheel::sim
