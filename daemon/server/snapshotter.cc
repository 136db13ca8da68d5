#include "daemon/server/snapshotter.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/wake_flag.h"
#include "daemon/events/snapshot_file.h"
#include "daemon/events/snapshot_format.h"
#include "daemon/events/state_file.h"

namespace pulsewheel {
namespace {

using Purpose = SnapshotHead::Purpose;

/// Some users of one shard. Lives as long as the last shard that was asked about them.
struct Part {
  std::uint32_t next_slot = 0;
  bool more = false;  // there are slots behind it
  UserImageBatch users;
  std::vector<std::vector<Shard::LiveSession>> live;  // by the sessions' shards
};

/// Sorts the live sessions of a part by their shards.
void sort_sessions(Part& part, std::size_t shards) {
  part.live.assign(shards, {});
  for (const SessionImage& session : part.users.sessions()) {
    if (!session.live()) continue;
    part.live[session.session.shard].push_back(
        {.session = session.session, .last_packet = {}, .timeout = {}, .deadline = {}});
  }
}

/// Puts into the users what the sessions' shards have said. How many sessions were gone.
std::size_t fill_in(Part& part) {
  std::vector<std::size_t> next(part.live.size(), 0);
  std::size_t gone = 0;
  for (SessionImage& session : part.users.sessions()) {
    if (!session.live()) continue;
    const Shard::LiveSession& live =
        part.live[session.session.shard][next[session.session.shard]++];
    if (live.found) {
      session.last_packet = live.last_packet;
      session.deadline = live.held ? MonoClock::now() + live.timeout : live.deadline;
    } else {
      ++gone;
    }
  }
  part.users.raise_last_seen();
  return gone;
}

}  // namespace

/// What the thread works with. It shares the ownership: a thread that hangs in the disk at the end
/// of the node is left to itself.
class Snapshotter::Writer : public std::enable_shared_from_this<Writer> {
 public:
  Writer(Options options, std::vector<Shard*> shards, const Sequencer& sequencer)
      : options_(std::move(options)),
        shards_(std::move(shards)),
        sequencer_(sequencer),
        interval_(options_.interval) {}

  void run();

  // Any thread.
  void note_edges(std::size_t edges) noexcept;
  void wake() noexcept;
  void set_interval(Duration interval) noexcept;
  void leave() noexcept;

  // Main thread, once no shard runs.
  void collect_last();
  void end() noexcept;
  [[nodiscard]] bool last_is_written() const noexcept {
    return last_is_written_.load(std::memory_order_acquire);
  }

  SnapshotCounters counters;
  const std::string& state_dir() const noexcept { return options_.state_dir; }

 private:
  struct LastSnapshot {
    std::vector<std::string> pieces;
    std::uint64_t users = 0;
    MonoTime began{};
  };

  [[nodiscard]] bool leaving() const noexcept { return leaving_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t clients() const noexcept;
  [[nodiscard]] std::uint64_t activity() const noexcept;
  void wait_for_news() noexcept;
  void wait_until_due(MonoTime last) noexcept;
  [[nodiscard]] bool write_periodic() noexcept;
  void write_last() noexcept;
  void note_success(MonoTime began, std::uint64_t bytes, std::uint64_t users) noexcept;
  void note_failure(const char* why) noexcept;
  [[nodiscard]] SnapshotHead make_head(Purpose purpose) const;

  [[nodiscard]] bool ask(Shard& shard, std::function<void()> task);
  [[nodiscard]] std::shared_ptr<Part> look_at(Shard& shard, std::uint32_t slot);
  [[nodiscard]] std::shared_ptr<Part> look_once(Shard& shard, std::uint32_t slot);
  [[nodiscard]] bool collect(SnapshotEncoder& encoder);

  const Options options_;
  const std::vector<Shard*> shards_;
  const Sequencer& sequencer_;

  WakeFlag news_;   // something has happened; waited for while nothing is due
  WakeFlag alarm_;  // an answer, another interval, the end; waited for in all other places
  std::atomic<Duration> interval_;
  std::atomic<std::uint64_t> edges_{0};  // that were seen
  std::atomic<bool> leaving_{false};
  std::atomic<bool> ended_{false};  // what comes last has been said
  std::atomic<bool> last_is_written_{false};
  std::optional<LastSnapshot> last_;    // before ended_: main's
  std::uint64_t written_activity_ = 0;  // up to the last snapshot; the thread's
};

// --- The thread ---------------------------------------------------------------------------------

void Snapshotter::Writer::run() {
  written_activity_ = activity();
  for (MonoTime last = MonoClock::now(); !leaving(); last = MonoClock::now()) {
    wait_for_news();
    wait_until_due(last);
    if (leaving()) break;
    const std::uint64_t now = activity();
    if (now != written_activity_ && write_periodic()) written_activity_ = now;
  }
  while (!ended_.load(std::memory_order_acquire))
    alarm_.wait();
  if (last_) write_last();
}

std::uint64_t Snapshotter::Writer::clients() const noexcept {
  std::int64_t clients = 0;
  for (const Shard* shard : shards_)
    clients += shard->counters().sessions.sessions.value();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(clients, 0));
}

/// Grows with whatever changes a user: packets, ends of sessions, edges.
std::uint64_t Snapshotter::Writer::activity() const noexcept {
  std::uint64_t sum = edges_.load(std::memory_order_relaxed);
  for (const Shard* shard : shards_) {
    const SessionCounters& sessions = shard->counters().sessions;
    sum +=
        sessions.logins_accepted.value() + sessions.keepalives.value() + sessions.messages.value();
    for (const Counter& closes : sessions.closes)
      sum += closes.value();
  }
  return sum;
}

void Snapshotter::Writer::wait_for_news() noexcept {
  while (!leaving() && clients() == 0 && activity() == written_activity_)
    news_.wait();
}

void Snapshotter::Writer::wait_until_due(MonoTime last) noexcept {
  while (!leaving()) {
    const Duration interval = interval_.load(std::memory_order_relaxed);
    if (interval == Duration{0}) {
      alarm_.wait();
    } else if (!alarm_.wait_until(last + interval)) {
      return;
    }
  }
}

void Snapshotter::Writer::note_edges(std::size_t edges) noexcept {
  edges_.fetch_add(edges, std::memory_order_relaxed);
  news_.raise();
}

void Snapshotter::Writer::wake() noexcept {
  news_.raise();
}

void Snapshotter::Writer::set_interval(Duration interval) noexcept {
  interval_.store(interval, std::memory_order_relaxed);
  alarm_.raise();
}

void Snapshotter::Writer::leave() noexcept {
  leaving_.store(true, std::memory_order_release);
  news_.raise();
  alarm_.raise();
}

void Snapshotter::Writer::end() noexcept {
  leave();
  ended_.store(true, std::memory_order_release);
  alarm_.raise();
}

// --- Writing ------------------------------------------------------------------------------------

SnapshotHead Snapshotter::Writer::make_head(Purpose purpose) const {
  return {.purpose = purpose,
          .folder = options_.folder,
          .epoch = options_.epoch,
          .at = ClockSample::take()};
}

/// False: nothing is written, because it failed, or because the node ends.
bool Snapshotter::Writer::write_periodic() noexcept {
  try {
    const MonoTime began = MonoClock::now();
    StateFileWriter file(options_.state_dir, kSnapshotName);
    SnapshotEncoder encoder(make_head(Purpose::kPeriodic),
                            [&file](std::string_view bytes) { file.write(bytes); });
    if (!collect(encoder) || leaving()) return false;
    encoder.finish(sequencer_.last_submitted_seq());
    file.commit();
    note_success(began, encoder.bytes(), encoder.users_online() + encoder.users_offline());
    return true;
  } catch (const std::exception& error) {
    note_failure(error.what());
    return false;
  }
}

void Snapshotter::Writer::write_last() noexcept {
  try {
    StateFileWriter file(options_.state_dir, kSnapshotName);
    std::uint64_t bytes = 0;
    for (const std::string& piece : last_->pieces) {
      file.write(piece);
      bytes += piece.size();
    }
    file.commit();
    note_success(last_->began, bytes, last_->users);
    last_is_written_.store(true, std::memory_order_release);
  } catch (const std::exception& error) {
    note_failure(error.what());
  }
}

void Snapshotter::Writer::note_success(MonoTime began, std::uint64_t bytes,
                                       std::uint64_t users) noexcept {
  const MonoTime now = MonoClock::now();
  counters.duration_ns.set((now - began).count());
  counters.bytes.set(static_cast<std::int64_t>(bytes));
  counters.users.set(static_cast<std::int64_t>(users));
  counters.written_at_ns.set(now.time_since_epoch().count());
  counters.written.add();
}

void Snapshotter::Writer::note_failure(const char* why) noexcept {
  counters.failures.add();
  try {
    log::error("snapshot", "no snapshot was written, the one before it stays: {}", why);
  } catch (const std::bad_alloc&) {  // the counter tells
  }
}

// --- Collecting ---------------------------------------------------------------------------------

/// Runs `task` on the shard's thread and waits for it. False: the node ends, and the task may still
/// run. What it works with is therefore its own.
bool Snapshotter::Writer::ask(Shard& shard, std::function<void()> task) {
  if (leaving()) return false;  // the shards may be gone by now
  const auto done = std::make_shared<std::atomic<bool>>(false);
  shard.post([self = shared_from_this(), done, task = std::move(task)] {
    task();
    done->store(true, std::memory_order_release);
    self->alarm_.raise();
  });
  while (!done->load(std::memory_order_acquire)) {
    if (leaving()) return false;
    alarm_.wait();
  }
  return !leaving();
}

/// Null: the node ends.
std::shared_ptr<Part> Snapshotter::Writer::look_at(Shard& shard, std::uint32_t slot) {
  std::shared_ptr<Part> part;
  for (int looks = 0; looks < kLooksMax; ++looks) {
    part = look_once(shard, slot);
    // A session that has ended meanwhile has left its home shard other news.
    if (!part || fill_in(*part) == 0) break;
  }
  return part;
}

std::shared_ptr<Part> Snapshotter::Writer::look_once(Shard& shard, std::uint32_t slot) {
  const auto part = std::make_shared<Part>();
  part->next_slot = slot;
  const bool answered = ask(shard, [part, &shard] {
    part->users = shard.copy_users(&part->next_slot, kSlotsPerPart, &part->more);
  });
  if (!answered) return nullptr;
  sort_sessions(*part, shards_.size());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (part->live[i].empty()) continue;
    Shard& owner = *shards_[i];
    if (!ask(owner, [part, &owner, i] { owner.read_sessions(part->live[i]); })) return nullptr;
  }
  return part;
}

/// False: the node ends.
bool Snapshotter::Writer::collect(SnapshotEncoder& encoder) {
  for (Shard* shard : shards_) {
    std::uint32_t slot = 0;
    for (bool more = true; more;) {
      const auto part = look_at(*shard, slot);
      if (!part) return false;
      encoder.add(part->users);
      slot = part->next_slot;
      more = part->more;
    }
  }
  return true;
}

/// Into memory: whatever the disk does, the shards may go when this returns.
void Snapshotter::Writer::collect_last() {
  LastSnapshot last;
  last.began = MonoClock::now();
  SnapshotEncoder encoder(make_head(Purpose::kEnd),
                          [&last](std::string_view bytes) { last.pieces.emplace_back(bytes); });
  for (const Shard* shard : shards_) {
    std::uint32_t slot = 0;
    for (bool more = true; more;)
      encoder.add(shard->copy_users(&slot, kSlotsPerPart, &more));
  }
  encoder.finish(sequencer_.last_submitted_seq());
  last.users = encoder.users_online() + encoder.users_offline();
  last_ = std::move(last);
}

// --- The main thread's side ---------------------------------------------------------------------

Snapshotter::Snapshotter(const Options& options, std::vector<Shard*> shards,
                         const Sequencer& sequencer)
    : writer_(std::make_shared<Writer>(options, std::move(shards), sequencer)) {}

Snapshotter::~Snapshotter() {
  end();
}

void Snapshotter::end() {
  writer_->end();
  static_cast<void>(thread_.join_within(kLastLimit));
}

void Snapshotter::start() {
  thread_.start("pw-snapshot", [writer = writer_] { writer->run(); });
}

void Snapshotter::set_interval(Duration interval) {
  writer_->set_interval(interval);
}

void Snapshotter::note_client() noexcept {
  writer_->wake();
}

void Snapshotter::on_edges(const SequencedBatch& batch) {
  writer_->note_edges(batch.edges->size());
}

void Snapshotter::on_gap(const SequenceGap& /*gap*/) {
  writer_->note_edges(1);
}

void Snapshotter::leave() noexcept {
  writer_->leave();
}

Snapshotter::Last Snapshotter::write_last() {
  try {
    writer_->collect_last();
  } catch (const std::bad_alloc&) {
    log::error("snapshot", "no memory for the last snapshot");
  }
  writer_->end();
  if (!thread_.join_within(kLastLimit)) {
    log::error("snapshot", "the disk of '{}' does not take the last snapshot",
               writer_->state_dir());
    return Last::kOlderServes;  // or this one, if the disk takes it after all
  }
  if (writer_->last_is_written()) return Last::kWritten;
  const std::string older = writer_->state_dir() + "/" + kSnapshotName;
  return ::access(older.c_str(), F_OK) == 0 ? Last::kOlderServes : Last::kNone;
}

const SnapshotCounters& Snapshotter::counters() const noexcept {
  return writer_->counters;
}

SnapshotCounters& Snapshotter::counters() noexcept {
  return writer_->counters;
}

}  // namespace pulsewheel
