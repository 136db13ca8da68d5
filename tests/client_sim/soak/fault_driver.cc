#include "tests/client_sim/soak/fault_driver.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include "tests/client_sim/http_request.h"

namespace pulsewheel::sim {
namespace {

namespace fs = std::filesystem;

constexpr int kHttpOk = 200;
/// Below what the standard streams, logs and listeners already take: nothing new can be opened.
constexpr rlim_t kStarvedLimit = 8;

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::trunc) << text;
}

}  // namespace

FaultDriver::FaultDriver(Setup setup, std::vector<Fault> plan, RunControl& control, MonoTime began)
    : setup_(std::move(setup)),
      plan_(std::move(plan)),
      control_(control),
      freeze_(setup_.daemon, control) {
  for (std::size_t i = 0; i < plan_.size(); ++i)
    calendar_.add(began + plan_[i].at, {Action::kBegin, i});
}

FaultDriver::~FaultDriver() {
  finish();
}

void FaultDriver::step(MonoTime now) {
  while (const auto due = calendar_.take_due(now))
    act(*due, now);
  if (!freeze_.lasts()) send_kicks();
  look_after_strangers(now);
}

bool FaultDriver::is_over() const noexcept {
  return calendar_.next_due() == MonoTime::max() && strangers_.empty();
}

void FaultDriver::finish() noexcept {
  freeze_.end();
  feed();
  control_.doubt_logins(false);
  strangers_.clear();
}

void FaultDriver::act(const Step& step, MonoTime now) {
  const Fault& fault = plan_[step.fault];
  switch (step.action) {
    case Action::kBegin:
      begin(fault, step.fault, now);
      break;
    case Action::kEndFreeze:
      freeze_.end();
      break;
    case Action::kStarve:
      starve();
      calendar_.add(now + fault.length, {Action::kFeed, step.fault});
      break;
    case Action::kFeed:
      feed();
      calendar_.add(now + kStarveRecovery, {Action::kTrust, step.fault});
      break;
    case Action::kTrust:
      control_.doubt_logins(false);
      break;
  }
}

void FaultDriver::announce(const Fault& fault) const {
  if (!setup_.verbose) return;
  std::fprintf(stderr, "  at %.1f s: %s", std::chrono::duration<double>(fault.at).count(),
               std::string(to_string(fault.kind)).c_str());
  if (fault.amount != 0) std::fprintf(stderr, " %u", fault.amount);
  if (fault.length != Duration::zero()) {
    std::fprintf(stderr, " for %.1f s", std::chrono::duration<double>(fault.length).count());
  }
  std::fputc('\n', stderr);
}

void FaultDriver::begin(const Fault& fault, std::size_t number, MonoTime now) {
  announce(fault);
  ++counts_.begun[static_cast<std::size_t>(fault.kind)];
  switch (fault.kind) {
    case FaultKind::kFreeze:
      freeze_.begin();
      calendar_.add(now + fault.length, {Action::kEndFreeze, number});
      break;
    case FaultKind::kResets:
      control_.cut(fault.amount);
      break;
    case FaultKind::kFlood:
    case FaultKind::kSlowLogins:
    case FaultKind::kGarbage:
    case FaultKind::kOversize:
    case FaultKind::kDeaf:
      strangers_.emplace_back(Strangers::Setup{setup_.target, fault.kind, fault.amount, setup_.seed,
                                               static_cast<std::uint32_t>(number)},
                              now);
      break;
    case FaultKind::kReload:
      reload();
      break;
    case FaultKind::kReopen:
      signal(SIGUSR1);
      break;
    case FaultKind::kRotate:
      rotate();
      break;
    case FaultKind::kStarve:
      control_.doubt_logins(true);
      calendar_.add(now + kStarveNotice, {Action::kStarve, number});
      break;
    case FaultKind::kKicks:
      for (std::uint32_t i = 0; i < fault.amount; ++i)
        control_.want_kick();
      break;
  }
}

void FaultDriver::reload() {
  // A bad file must change nothing, and neither does the good one: it says what holds already.
  break_file_ = !break_file_;
  write_file(setup_.config_file, break_file_ ? "[presence\ntimeout = 1s" : "");
  signal(SIGHUP);
}

void FaultDriver::rotate() {
  std::error_code failure;
  fs::path old = setup_.event_log;
  old += ".rotated-" + std::to_string(++rotations_);
  fs::rename(setup_.event_log, old, failure);
  if (failure) {
    ++counts_.left_out;
    return;
  }
  signal(SIGUSR1);
}

void FaultDriver::signal(int number) {
  if (handles_signal(setup_.daemon, number)) {
    ::kill(setup_.daemon, number);
  } else {
    ++counts_.left_out;
  }
}

void FaultDriver::starve() {
  if (::prlimit(setup_.daemon, RLIMIT_NOFILE, nullptr, &limit_) != 0) {
    ++counts_.left_out;
    return;
  }
  rlimit starved = limit_;
  starved.rlim_cur = kStarvedLimit;
  starving_ = ::prlimit(setup_.daemon, RLIMIT_NOFILE, &starved, nullptr) == 0;
  if (!starving_) ++counts_.left_out;
}

void FaultDriver::feed() noexcept {
  if (!starving_) return;
  starving_ = false;
  ::prlimit(setup_.daemon, RLIMIT_NOFILE, &limit_, nullptr);
}

void FaultDriver::send_kicks() {
  while (const auto uid = control_.take_kick_offer()) {
    const auto answer = http_request(setup_.http, "POST", "/v1/users/" + *uid + ":kick");
    const bool kicked = answer && answer->status == kHttpOk;
    ++(kicked ? counts_.kicks : counts_.kicks_refused);
  }
}

void FaultDriver::look_after_strangers(MonoTime now) {
  std::erase_if(strangers_, [&](Strangers& strangers) {
    strangers.step(now);
    if (strangers.is_overdue(now)) {
      if (strangers.notice_a_close()) counts_.unclosed += strangers.open();
      return true;
    }
    return strangers.open() == 0;
  });
}

bool handles_signal(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    // Blocked ones count: the daemon may take them from a descriptor.
    if (!line.starts_with("SigBlk:") && !line.starts_with("SigIgn:") &&
        !line.starts_with("SigCgt:")) {
      continue;
    }
    const std::uint64_t mask = std::strtoull(line.c_str() + 7, nullptr, 16);
    if ((mask >> (signal - 1) & 1) != 0) return true;
  }
  return false;
}

}  // namespace pulsewheel::sim
