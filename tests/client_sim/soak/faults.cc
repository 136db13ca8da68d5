#include "tests/client_sim/soak/faults.h"

#include <algorithm>

#include "tests/client_sim/random.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, kFaultKinds> kNames = {
    "freeze", "resets", "flood",  "slow_logins", "garbage", "oversize",
    "deaf",   "reload", "reopen", "rotate",      "starve",  "kicks"};

constexpr std::uint64_t kPlanStream = 3ULL << 32;

// Between two faults.
constexpr Duration kPauseMin = 200ms;
constexpr Duration kPauseMax = 2s;

constexpr Duration kFreezeMin = 300ms;
constexpr Duration kFreezeMax = 4s;
constexpr Duration kStarveMin = 300ms;
constexpr Duration kStarveMax = 2s;
/// How long the clients of a fault without a length of its own stay, at most: the daemon's login
/// timeout, which ends them, and a freeze in between.
constexpr Duration kStrangersStay = 8s;
/// After a freeze the daemon reads what has come.
constexpr Duration kFreezeRecovery = 2s;
/// What the steps of a fault may be late by on a busy machine: the next one must not begin before.
constexpr Duration kMargin = 300ms;
constexpr Duration kSignalTime = 500ms;
constexpr Duration kKickTime = 1s;

constexpr std::uint32_t kResetPercentMin = 5;
constexpr std::uint32_t kResetPercentMax = 100;
constexpr std::uint32_t kStrangersMin = 10;
constexpr std::uint32_t kStrangersMax = 200;
constexpr std::uint32_t kDeafMax = 2;
constexpr std::uint32_t kKicksMax = 20;

/// A flood takes up to this part of the clients' number, and stays below what an accept queue
/// holds: beyond it the kernel drops what a client was told it had taken.
constexpr std::uint32_t kFloodDivisor = 4;
constexpr std::uint32_t kFloodMax = 1'000;

struct Bounds {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
};

Bounds amount_of(FaultKind kind, std::uint32_t connections) noexcept {
  switch (kind) {
    case FaultKind::kResets:
      return {kResetPercentMin, kResetPercentMax};
    case FaultKind::kFlood:
      return {kStrangersMin, std::clamp(connections / kFloodDivisor, kStrangersMin, kFloodMax)};
    case FaultKind::kSlowLogins:
    case FaultKind::kGarbage:
    case FaultKind::kOversize:
      return {kStrangersMin, kStrangersMax};
    case FaultKind::kDeaf:
      return {1, kDeafMax};
    case FaultKind::kKicks:
      return {1, kKicksMax};
    case FaultKind::kFreeze:
    case FaultKind::kReload:
    case FaultKind::kReopen:
    case FaultKind::kRotate:
    case FaultKind::kStarve:
      break;
  }
  return {};
}

struct Lengths {
  Duration min{0};
  Duration max{0};
};

Lengths length_of(FaultKind kind) noexcept {
  if (kind == FaultKind::kFreeze) return {kFreezeMin, kFreezeMax};
  if (kind == FaultKind::kStarve) return {kStarveMin, kStarveMax};
  return {};
}

Duration whole_time(const Fault& fault) noexcept {
  const Duration alone = exclusive_time(fault);
  return alone != Duration::zero() ? alone : kStrangersStay;
}

}  // namespace

std::string_view to_string(FaultKind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

Duration exclusive_time(const Fault& fault) noexcept {
  switch (fault.kind) {
    case FaultKind::kFreeze:
      return fault.length + kFreezeRecovery + kMargin;
    case FaultKind::kStarve:
      return kStarveNotice + fault.length + kStarveRecovery + kMargin;
    case FaultKind::kReload:
    case FaultKind::kReopen:
    case FaultKind::kRotate:
      return kSignalTime;
    case FaultKind::kKicks:
      return kKickTime;
    case FaultKind::kResets:
    case FaultKind::kFlood:
    case FaultKind::kSlowLogins:
    case FaultKind::kGarbage:
    case FaultKind::kOversize:
    case FaultKind::kDeaf:
      break;
  }
  return Duration::zero();
}

std::vector<Fault> plan_faults(std::uint64_t seed, Duration run, std::uint32_t connections) {
  Random random(seed, kPlanStream);
  std::vector<Fault> plan;
  Duration at{0};
  Duration free_at{0};  // when the last fault that needs the daemon for itself is over
  while (true) {
    at += random.between(kPauseMin, kPauseMax);
    Fault fault;
    fault.kind = static_cast<FaultKind>(random.below(kFaultKinds));
    const Lengths lengths = length_of(fault.kind);
    fault.length = random.between(lengths.min, lengths.max);
    const Bounds bounds = amount_of(fault.kind, connections);
    fault.amount = bounds.min + random.below(bounds.max - bounds.min + 1);
    const Duration alone = exclusive_time(fault);
    fault.at = alone != Duration::zero() ? std::max(at, free_at) : at;
    if (at >= run) break;
    if (fault.at + whole_time(fault) > run) continue;
    if (alone != Duration::zero()) free_at = fault.at + alone;
    plan.push_back(fault);
  }
  std::stable_sort(plan.begin(), plan.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return plan;
}

std::vector<Fault> plan_rehearsal(std::uint32_t connections) {
  std::vector<Fault> plan;
  Duration at{0};
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    Fault fault;
    fault.at = at;
    fault.kind = static_cast<FaultKind>(kind);
    fault.length = length_of(fault.kind).max;
    fault.amount = amount_of(fault.kind, connections).max;
    at += std::max<Duration>(exclusive_time(fault), kPauseMin);
    plan.push_back(fault);
  }
  return plan;
}

Duration end_of(const std::vector<Fault>& faults) noexcept {
  Duration end{0};
  for (const Fault& fault : faults)
    end = std::max(end, fault.at + whole_time(fault));
  return end;
}

}  // namespace pulsewheel::sim
