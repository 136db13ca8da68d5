// Ways to break the virtual shell on purpose: a checker that finds none of them checks nothing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pulsewheel::nodesim {

enum class Sabotage : std::uint8_t {
  kNone,
  kFenceWithoutReading,  // answers a fence without having read anything
  kBlindDeadline,        // declares a session silent although bytes lie in its socket
  kLoginsOvertaken,      // logins leave later than the answer to a fence, and what follows from it
  kLostDismissal,        // loses the word that a session was taken over or kicked
  kBlindStall,           // takes everything for read after a stall
  kExpiresAhead,         // expires by a time a little after the beginning of the round
  kLateWakeup,           // sleeps one tick longer than it was told
  kForgottenKeepalive,   // does not hear one keepalive in a hundred
  kForgottenEnd,         // reports no end for a session that closed while its login was decided
  kForgottenTouch,       // does not tell home shards of packets, for whoever mirrors deadlines
  kDoubleLogin,          // submits a LOGIN twice
  kForgottenRest,        // a held session forgets what it had left
  kTimeRunsWhileHeld,    // a held session's shorter timeout counts from when it was told
};

struct SabotageName {
  Sabotage sabotage;
  std::string_view name;
};

inline constexpr std::array kSabotageNames{
    SabotageName{Sabotage::kNone, "none"},
    SabotageName{Sabotage::kFenceWithoutReading, "fence-without-reading"},
    SabotageName{Sabotage::kBlindDeadline, "blind-deadline"},
    SabotageName{Sabotage::kLoginsOvertaken, "logins-overtaken"},
    SabotageName{Sabotage::kLostDismissal, "lost-dismissal"},
    SabotageName{Sabotage::kBlindStall, "blind-stall"},
    SabotageName{Sabotage::kExpiresAhead, "expires-ahead"},
    SabotageName{Sabotage::kLateWakeup, "late-wakeup"},
    SabotageName{Sabotage::kForgottenKeepalive, "forgotten-keepalive"},
    SabotageName{Sabotage::kForgottenEnd, "forgotten-end"},
    SabotageName{Sabotage::kForgottenTouch, "forgotten-touch"},
    SabotageName{Sabotage::kDoubleLogin, "double-login"},
    SabotageName{Sabotage::kForgottenRest, "forgotten-rest"},
    SabotageName{Sabotage::kTimeRunsWhileHeld, "time-runs-while-held"},
};

[[nodiscard]] constexpr std::string_view to_string(Sabotage sabotage) noexcept {
  for (const SabotageName& known : kSabotageNames) {
    if (known.sabotage == sabotage) return known.name;
  }
  return "?";
}

[[nodiscard]] constexpr std::optional<Sabotage> sabotage_of(std::string_view name) noexcept {
  for (const SabotageName& known : kSabotageNames) {
    if (known.name == name) return known.sabotage;
  }
  return std::nullopt;
}

}  // namespace pulsewheel::nodesim
