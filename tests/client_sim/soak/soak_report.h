// The figures of a soak: as a table for people and as JSON for scripts.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/client_sim/soak/cycle.h"
#include "tests/client_sim/soak/fault_driver.h"
#include "tests/client_sim/soak/footprint.h"

namespace pulsewheel::sim {

struct SoakFigures {
  std::uint64_t seed = 0;
  double minutes = 0;  // asked for
  CycleFigures rehearsal;
  CycleFigures soak;
  FaultDriver::Counts rehearsed;
  FaultDriver::Counts faults;
  Footprint base;                     // after the rehearsal
  Footprint end;                      // after the soak
  std::vector<std::string> failures;  // what was not as it must be, one sentence each

  [[nodiscard]] bool passed() const noexcept { return failures.empty(); }
};

/// The sentences for `failures` about one cycle, which `name` names.
void judge_cycle(const std::string& name, const CycleFigures& cycle,
                 const FaultDriver::Counts& faults, std::vector<std::string>& failures);

/// The keys are public interface: only add some.
[[nodiscard]] std::string to_json(const SoakFigures& figures);

void print_table(std::ostream& out, const SoakFigures& figures);

}  // namespace pulsewheel::sim
