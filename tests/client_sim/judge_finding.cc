// What a Judge says of a broken promise.
#include <array>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>

#include "tests/client_sim/judge.h"

namespace pulsewheel::sim {
namespace {

/// How long `time` was before `at`: "1.204 s before".
std::string before(MonoTime at, MonoTime time) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << std::chrono::duration<double>(at - time).count()
      << " s before";
  return out.str();
}

}  // namespace

std::vector<Finding> Judge::take_findings() {
  return std::exchange(findings_, {});
}

void Judge::find(std::uint64_t Verdict::*kind, const char* name, std::uint32_t user, MonoTime at) {
  ++(verdict_.*kind);
  if (findings_left_ == 0) return;
  --findings_left_;
  findings_.push_back({user, std::string(name) + known_of(user, at)});
}

/// Call before the record changes.
std::string Judge::known_of(std::uint32_t user, MonoTime at) const {
  static constexpr std::array<const char*, 4> kStates = {"none", "pending", "live", "doubtful"};
  static constexpr std::array<const char*, 3> kLines = {"open", "closed", "lost"};
  const User& record = users_[user];
  std::string out = record.online ? "; was online" : "; was offline";
  for (std::uint32_t i = 0; i < sessions_per_user_; ++i) {
    const Session& session = sessions_[std::size_t{user} * sessions_per_user_ + i];
    out +=
        "; session " + std::to_string(i) + " " + kStates[static_cast<std::size_t>(session.state)];
    if (session.state == State::kNone) continue;
    out += std::string(", ") + kLines[static_cast<std::size_t>(session.line)] + ", login " +
           before(at, session.login_before) + ", last packet " + before(at, session.last.before) +
           ", timeout " + std::to_string(session.timeout / std::chrono::milliseconds{1}) + " ms";
    if (session.state == State::kDoubtful) {
      out += std::string(session.awaited ? ", answer awaited" : "") +
             (session.was_live ? ", certain packet " + before(at, session.certain.before) : "");
    }
  }
  if (record.has_ended) {
    out += "; session " + std::to_string(record.ended_session % sessions_per_user_) +
           (record.ended_by_close ? " closed " : " logged out ") + before(at, record.ended.before) +
           (record.ended_answered ? ", answered" : "");
  }
  if (record.gap_open) {
    out += "; had been due " + before(at, record.gap.base) + ", until a packet " +
           before(at, record.gap_end) + (record.gap.certain ? ", for certain" : "");
  }
  if (!stalls_.empty() && stalls_.back().ended + rules_.drain > at - std::chrono::seconds{10}) {
    out += "; the daemon was stopped " + before(at, stalls_.back().began);
    if (stalls_.back().ended < at) out += ", and ran again " + before(at, stalls_.back().ended);
  }
  return out;
}

}  // namespace pulsewheel::sim
