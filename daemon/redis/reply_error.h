// ReplyError: the errors with which a Redis server answers, and what each of them asks of us.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/base/log.h"

namespace pulsewheel {

/// By the first word of an error reply. Append only: the numbers are indices of counters.
enum class ReplyError : std::uint8_t {
  kNoAuth,
  kWrongPass,
  kNoPerm,
  kLoading,
  kMasterDown,
  kBusy,
  kReadOnly,
  kOom,
  kMisconf,
  kNoReplicas,
  kWrongType,
  kNoScript,
  kMoved,
  kCrossSlot,
  kOther,
};
inline constexpr std::size_t kReplyErrorCount = 15;

/// Of a server's words in a log line.
inline constexpr std::size_t kReplyTextShownMax = 200;

/// What to do about it. The client itself carries out the two about connections and the one about
/// scripts; the rest is for whoever sent the command.
enum class Reaction : std::uint8_t {
  kRetryLater,       // the connection is good, and the same command may succeed in a while
  kReconnect,        // this server is not the right one (any more): ask for the address again
  kReconnectSlowly,  // no command will succeed before somebody has changed something
  kResendWithEval,   // the server has forgotten the script: send its source
  kStopKind,         // this kind of command fails until somebody has changed something
  kGiveUp,           // this one command failed
};

struct ReplyErrorFacts {
  ReplyError error;
  std::string_view word;    // with which the reply starts; empty for kOther
  std::string_view metric;  // label value
  log::Kind kind;           // of its log line
  Reaction reaction;
  std::string_view text;  // one sentence for the log
};

/// All of them, at the index of their number.
[[nodiscard]] const std::array<ReplyErrorFacts, kReplyErrorCount>& reply_errors() noexcept;
[[nodiscard]] const ReplyErrorFacts& facts_of(ReplyError error) noexcept;

/// `text` is that of an error reply. Only whole words count: "BUSYGROUP ..." is not kBusy.
[[nodiscard]] ReplyError classify_reply_error(std::string_view text) noexcept;

}  // namespace pulsewheel
