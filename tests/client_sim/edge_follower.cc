#include "tests/client_sim/edge_follower.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "daemon/base/thread.h"

namespace pulsewheel::sim {
namespace {

using namespace std::chrono_literals;

/// Between two looks: a burst of writes is read in a few rounds, and a line is seen at most this
/// much later than it could be.
constexpr Duration kRoundPause = 2ms;
/// Without a change: how often stopping is looked for.
constexpr int kIdleWaitMs = 50;

}  // namespace

EdgeFollower::EdgeFollower(Setup setup)
    : setup_(std::move(setup)), batches_(setup_.inboxes.size()) {
  inotify_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  for (const std::string& path : setup_.paths) {
    files_.push_back(std::make_unique<FollowedFile>(path, setup_.from_start));
    // The folder and not the file: rotation gives the name to another file.
    const auto folder = std::filesystem::absolute(path).parent_path();
    const int watch =
        ::inotify_add_watch(inotify_, folder.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    woken_ = woken_ && watch >= 0;
  }
  thread_ = std::thread([this] { run(); });
}

EdgeFollower::~EdgeFollower() {
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
  if (inotify_ >= 0) ::close(inotify_);
}

void EdgeFollower::run() {
  set_thread_name("edge-follower");
  block_all_signals_in_this_thread();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const MonoTime looked = MonoClock::now();
    read_round();
    if (pending_.empty()) {
      caught_up_ns_.store(looked.time_since_epoch().count(), std::memory_order_release);
    }
    std::this_thread::sleep_for(kRoundPause);
    wait_for_change();
  }
}

void EdgeFollower::wait_for_change() noexcept {
  pollfd waiting{inotify_, POLLIN, 0};
  // With an edge held back, the next round must not wait for a change that may never come; and
  // without a watch nothing would tell of one.
  if (!woken_ || !pending_.empty()) return;
  if (::poll(&waiting, 1, kIdleWaitMs) <= 0) return;
  alignas(inotify_event) char events[4096];
  while (::read(inotify_, events, sizeof(events)) > 0) {
  }
}

void EdgeFollower::read_round() {
  // Of two files, one may already have an edge whose predecessor is yet to be read from the
  // other. What a round brings is therefore handed on by the next one, in order.
  const auto key = [](const Pending& p) { return std::tuple(p.epoch, p.seq); };
  std::tuple<std::uint64_t, std::uint64_t> known{0, 0};
  for (const Pending& pending : pending_)
    known = std::max(known, key(pending));
  for (const auto& file : files_) {
    file->read([this](std::string_view line, MonoTime seen_at) { on_line(line, seen_at); });
  }
  if (files_.size() > 1) {
    std::stable_sort(pending_.begin(), pending_.end(),
                     [&](const Pending& a, const Pending& b) { return key(a) < key(b); });
    const auto end = std::find_if(pending_.begin(), pending_.end(),
                                  [&](const Pending& p) { return key(p) > known; });
    std::for_each(pending_.begin(), end, [this](const Pending& p) { hand_on(p); });
    pending_.erase(pending_.begin(), end);
  }
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    if (!batches_[i].empty()) setup_.inboxes[i]->push(batches_[i]);
  }
}

void EdgeFollower::on_line(std::string_view line, MonoTime seen_at) {
  EdgeLine parsed;
  if (!parse_edge_line(line, parsed, scratch_)) {
    const std::optional<std::uint64_t> dropped = parse_gap_line(line);
    if (dropped) {
      stats_.dropped.add(*dropped);
    } else {
      stats_.unreadable.add();
    }
    return;
  }
  const std::optional<std::uint32_t> user = setup_.names->number(parsed.uid);
  const Pending pending{parsed.epoch,
                        parsed.seq,
                        user.value_or(0),
                        {parsed.kind, parsed.reason, seen_at},
                        user.has_value()};
  if (files_.size() > 1) {
    pending_.push_back(pending);
  } else {
    hand_on(pending);
  }
}

void EdgeFollower::note_new_epoch(std::uint64_t seq) {
  if (seq == last_seq_ + 1) {
    stats_.continued.add();
  } else if (seq == 1) {
    stats_.restarted.add();
  } else {
    stats_.skipped.add(seq > last_seq_ ? seq - last_seq_ - 1 : seq - 1);
  }
}

void EdgeFollower::hand_on(const Pending& pending) {
  if (std::tie(pending.epoch, pending.seq) <= std::tie(last_epoch_, last_seq_)) {
    stats_.reordered.add();
  } else if (pending.epoch == last_epoch_) {
    stats_.skipped.add(pending.seq - last_seq_ - 1);
  } else if (last_epoch_ != 0) {
    note_new_epoch(pending.seq);
  }
  last_epoch_ = pending.epoch;
  last_seq_ = pending.seq;
  const std::size_t inbox = pending.user / setup_.users_per_inbox;
  if (!pending.is_ours || inbox >= batches_.size()) {
    stats_.foreign.add();
    return;
  }
  stats_.edges.add();
  batches_[inbox].push_back({pending.user % setup_.users_per_inbox, pending.edge});
}

}  // namespace pulsewheel::sim
