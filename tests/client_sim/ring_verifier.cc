#include "tests/client_sim/ring_verifier.h"

#include <algorithm>
#include <utility>

#include "daemon/base/thread.h"
#include "tests/client_sim/program.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// For a worker's answer: a round of its loop, on a busy machine.
constexpr Duration kRecordLimit = 5s;
/// Between two attempts at the end, where Redis does not answer.
constexpr Duration kRetryPause = 200ms;

}  // namespace

RingVerifier::RingVerifier(Setup setup, RunControl& control)
    : setup_(std::move(setup)),
      control_(control),
      ring_(setup_.address, setup_.keys, *setup_.names, setup_.users) {}

RingVerifier::~RingVerifier() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    wish_ = Wish::kStop;
  }
  wished_.notify_one();
  thread_.join();
}

void RingVerifier::start() {
  thread_ = std::thread([this] { run(); });
}

RingFigures RingVerifier::settle() {
  {
    const std::lock_guard lock(mutex_);
    wish_ = Wish::kSettle;
  }
  wished_.notify_one();
  thread_.join();
  return figures_;
}

bool RingVerifier::wait_until(MonoTime until, Wish wish) {
  std::unique_lock lock(mutex_);
  return !wished_.wait_until(lock, until, [&] { return wish_ != wish; });
}

void RingVerifier::run() {
  set_thread_name("ring-verifier");
  block_all_signals_in_this_thread();
  try {
    static_cast<void>(ring_.clock());
  } catch (const RedisTrouble& trouble) {
    control_.fail(kExitUnavailable, std::string("--verify-redis: ") + trouble.what());
  }
  check_now_and_then();
  const bool wants_end = [this] {
    const std::lock_guard lock(mutex_);
    return wish_ == Wish::kSettle;
  }();
  if (wants_end) compare_until_equal();
}

void RingVerifier::check_now_and_then() {
  MonoTime next = MonoClock::now() + kCheckInterval;
  while (wait_until(next, Wish::kCheck)) {
    next += kCheckInterval;
    if (control_.phase() == Phase::kRamp) continue;
    const std::optional<RingDifferences> found = compare_once();
    if (!found) continue;
    ++figures_.checks;
    if (found->total() != 0) ++figures_.differing_checks;
    figures_.differences_max = std::max(figures_.differences_max, found->total());
  }
}

void RingVerifier::compare_until_equal() {
  const MonoTime began = MonoClock::now();
  do {
    figures_.at_end = compare_once();
    figures_.settled_seconds = to_seconds(MonoClock::now() - began);
  } while (!figures_.equal() && MonoClock::now() < began + kSettleLimit &&
           wait_until(MonoClock::now() + kRetryPause, Wish::kSettle));
  if (figures_.at_end) note_examples(*figures_.at_end);
}

std::optional<RingDifferences> RingVerifier::compare_once() {
  const Wish wish = [this] {
    const std::lock_guard lock(mutex_);
    return wish_;
  }();
  const auto before = take_record();
  if (!before || before->stalled) return std::nullopt;
  if (!wait_until(before->taken + setup_.rules.allowance(), wish)) return std::nullopt;
  const MonoTime began = MonoClock::now();
  try {
    auto found = read_and_compare(*before);
    figures_.slowest_seconds =
        std::max(figures_.slowest_seconds, to_seconds(MonoClock::now() - began));
    return found;
  } catch (const RedisTrouble& trouble) {
    ++figures_.failed_checks;
    control_.note_trouble(trouble.what());
    return std::nullopt;
  }
}

std::optional<RingDifferences> RingVerifier::read_and_compare(const RingRecord& before) {
  // A user who was read before a move and looked up behind it is a tear of the scan, not of the
  // ring: whoever differs is read again in one moment.
  const RingClock clock = ring_.clock();
  RingSnapshot ring = ring_.scan();
  auto after = take_record();
  if (!after || after->stalled) return std::nullopt;
  RingDifferences found = compare(setup_.rules, ring, clock, before, *after);
  if (found.total() == 0) return found;
  ring_.reread(ring, found.users);
  after = take_record();
  if (!after || after->stalled) return std::nullopt;
  return compare(setup_.rules, ring, clock, before, *after);
}

std::optional<RingRecord> RingVerifier::take_record() {
  for (RecordDesk* const desk : setup_.desks)
    desk->ask();
  const MonoTime patience = MonoClock::now() + kRecordLimit;
  RingRecord all;
  all.users.reserve(setup_.users);
  for (RecordDesk* const desk : setup_.desks) {
    const auto part = desk->wait(patience - MonoClock::now());
    if (!part) return std::nullopt;
    all.taken = std::max(all.taken, part->taken);
    all.stalled = all.stalled || part->stalled;
    all.users.insert(all.users.end(), part->users.begin(), part->users.end());
  }
  return all;
}

void RingVerifier::note_examples(const RingDifferences& found) {
  for (const auto& [user, fault] : found.users) {
    if (figures_.examples.size() == kExamplesMax) return;
    UidNames::Buffer uid;
    figures_.examples.push_back(std::string(setup_.names->write(user, uid)) + ": " +
                                std::string(to_string(fault)));
  }
}

}  // namespace pulsewheel::sim
