#include "daemon/events/event_log.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/mutex.h"
#include "daemon/base/service_thread.h"
#include "daemon/base/wake_flag.h"
#include "daemon/events/edge_line.h"

namespace pulsewheel {
namespace {

/// Bytes given to one write(). Big enough to make system calls rare, small enough not to show in
/// the daemon's memory.
constexpr std::size_t kWriteBytes = 256 * 1024;

/// Edges are copied into the queue in chunks of at most this many. A chunk that still waits when
/// the next batch comes is filled up first, so a backlog of single edges costs what a big batch
/// costs.
constexpr std::size_t kChunkEdgesMax = 1024;

/// What the destructor waits beyond the thread's own deadline before it calls it hung.
constexpr Duration kStopGrace = std::chrono::milliseconds{200};

/// Edges that are not in the file: `dropped` of them, with a seq from first to last.
struct Missing {
  std::uint64_t dropped = 0;  // 0: nothing is missing
  std::uint64_t first_seq = 0;
  std::uint64_t last_seq = 0;

  void extend(std::uint64_t count, std::uint64_t first, std::uint64_t last) noexcept {
    if (dropped == 0) first_seq = first;
    last_seq = last;
    dropped += count;
  }
};

struct Chunk {
  Missing missing_before;
  std::uint64_t epoch = 0;
  WallClockMapping clock;  // taken when the chunk was begun
  EdgeBatch edges;
  std::vector<std::uint64_t> seqs;  // of the edges
};

/// Edge lines among `lines`; the others tell of gaps.
std::size_t count_edge_lines(std::string_view lines) {
  std::size_t count = 0;
  while (!lines.empty()) {
    count += lines.starts_with(R"({"seq")") ? 1 : 0;
    lines.remove_prefix(lines.find('\n') + 1);
  }
  return count;
}

}  // namespace

/// One file with its queue and thread. Shared by the EventLog and the thread's body, which may
/// hang in a write for longer than the EventLog lives.
class EventLog::Writer : public std::enable_shared_from_this<Writer> {
 public:
  /// Writes the edges of kind `only`, or all.
  Writer(const Options& options, const std::string& path, std::optional<EdgeKind> only)
      : queue_edges_max_(options.queue_edges_max),
        only_(only),
        output_(LineFile({path, options.rotate_bytes, options.rotate_keep, options.calls})) {}

  // The sequencer's thread.
  void append(const SequencedBatch& batch);
  void add_gap(const SequenceGap& gap);

  // The owner's thread; the sequencer has stopped before begin_stop().
  void start(const char* thread_name);
  void begin_stop(MonoTime deadline);
  void finish_stop(MonoTime deadline);

  // Any thread.
  void reopen() noexcept;
  void set_rotation(std::uint64_t bytes, std::uint32_t keep);
  void add_to(Stats& stats) const noexcept;

 private:
  [[nodiscard]] bool is_mine(const Edge& edge) const noexcept {
    return !only_ || edge.kind == *only_;
  }
  std::size_t count_mine(const EdgeBatch& edges) const noexcept;
  std::size_t enqueue_some(const SequencedBatch& batch, std::size_t from)
      PULSEWHEEL_REQUIRES(mutex_);
  Chunk& open_chunk(std::uint64_t epoch) PULSEWHEEL_REQUIRES(mutex_);

  void run();
  void fill_buffer();
  bool have_chunk();
  char* format_chunk(char* out, const char* end);
  void write_buffer();
  bool finished();
  void sleep();

  const std::size_t queue_edges_max_;
  const std::optional<EdgeKind> only_;

  // The sequencer's.
  Counter accepted_;  // edges that were queued
  Counter dropped_;   // edges that were not
  Missing missing_;   // what the next chunk has to tell

  Mutex mutex_;
  std::deque<Chunk> queue_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::optional<MonoTime> stop_by_ PULSEWHEEL_GUARDED_BY(mutex_);
  struct Rotation {
    std::uint64_t bytes;
    std::uint32_t keep;
  };
  std::optional<Rotation> rotation_wanted_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::atomic<bool> reopen_wanted_{false};
  WakeFlag wake_;

  // This thread's.
  LineOutput output_;
  EdgeLineWriter lines_;
  std::optional<Chunk> current_;
  std::size_t next_edge_ = 0;        // of current_
  std::size_t edges_in_buffer_ = 0;  // formatted, not yet written
  std::optional<MonoTime> stopping_by_;
  Counter written_;
  Counter discarded_;  // edges that were queued and, at the end, not written
  Gauge errors_;

  ServiceThread thread_;  // the owner's handle on it
};

// The sequencer's side.

std::size_t EventLog::Writer::count_mine(const EdgeBatch& edges) const noexcept {
  if (!only_) return edges.size();
  std::size_t count = 0;
  for (std::size_t i = 0; i < edges.size(); ++i)
    count += is_mine(edges.at(i)) ? 1 : 0;
  return count;
}

void EventLog::Writer::append(const SequencedBatch& batch) {
  const EdgeBatch& edges = *batch.edges;
  const std::size_t mine = count_mine(edges);
  if (mine == 0) return;
  const std::uint64_t queued = accepted_.value() - written_.value();
  if (queued + mine > queue_edges_max_) {
    dropped_.add(mine);
    missing_.extend(mine, batch.first_seq, batch.first_seq + edges.size() - 1);
    return;
  }
  accepted_.add(mine);
  for (std::size_t next = 0; next < edges.size();) {
    const MutexLock lock(mutex_);  // taken anew for each chunk: the writer gets in between
    next = enqueue_some(batch, next);
  }
  wake_.raise();
}

/// Copies the edges of one chunk, from number `from` on; returns the number of the next one.
std::size_t EventLog::Writer::enqueue_some(const SequencedBatch& batch, std::size_t from) {
  const EdgeBatch& edges = *batch.edges;
  while (from < edges.size() && !is_mine(edges.at(from)))
    ++from;
  if (from == edges.size()) return from;
  Chunk& chunk = open_chunk(batch.epoch);
  for (; from < edges.size() && chunk.seqs.size() < kChunkEdgesMax; ++from) {
    const Edge edge = edges.at(from);
    if (!is_mine(edge)) continue;
    chunk.edges.push(edge);
    chunk.seqs.push_back(batch.first_seq + from);
  }
  return from;
}

/// The chunk to add to: the last one that waits if it has room, else a new one.
Chunk& EventLog::Writer::open_chunk(std::uint64_t epoch) {
  if (missing_.dropped == 0 && !queue_.empty()) {
    Chunk& last = queue_.back();
    if (last.epoch == epoch && last.seqs.size() < kChunkEdgesMax) return last;
  }
  Chunk& chunk = queue_.emplace_back();
  chunk.epoch = epoch;
  chunk.missing_before = std::exchange(missing_, {});
  return chunk;
}

void EventLog::Writer::add_gap(const SequenceGap& gap) {
  const std::uint64_t count = gap.last_seq - gap.first_seq + 1;
  dropped_.add(count);
  missing_.extend(count, gap.first_seq, gap.last_seq);
}

// The owner's side.

void EventLog::Writer::start(const char* thread_name) {
  thread_.start(thread_name, [self = shared_from_this()] { self->run(); });
}

void EventLog::Writer::begin_stop(MonoTime deadline) {
  {
    const MutexLock lock(mutex_);
    stop_by_ = deadline;
    if (missing_.dropped != 0) queue_.emplace_back().missing_before = missing_;
  }
  wake_.raise();
}

void EventLog::Writer::finish_stop(MonoTime deadline) {
  static_cast<void>(thread_.join_within(deadline + kStopGrace - MonoClock::now()));
}

void EventLog::Writer::reopen() noexcept {
  reopen_wanted_.store(true, std::memory_order_release);
  wake_.raise();
}

/// The writing thread takes it over before it takes the next edges; it need not wake for it.
void EventLog::Writer::set_rotation(std::uint64_t bytes, std::uint32_t keep) {
  const MutexLock lock(mutex_);
  rotation_wanted_ = Rotation{bytes, keep};
}

void EventLog::Writer::add_to(Stats& stats) const noexcept {
  const std::uint64_t gone = written_.value() + discarded_.value();
  const std::uint64_t accepted = accepted_.value();
  stats.written += written_.value();
  stats.dropped += dropped_.value() + discarded_.value();
  stats.errors += static_cast<std::uint64_t>(errors_.value());
  if (accepted > gone) stats.queued += accepted - gone;
}

// The writing thread.

void EventLog::Writer::run() {
  for (;;) {
    if (reopen_wanted_.exchange(false, std::memory_order_acq_rel)) output_.reopen();
    fill_buffer();
    write_buffer();
    if (finished()) break;
    sleep();
  }
  discarded_.add(accepted_.value() - written_.value());
}

/// Formats queued edges until there is enough for a write or nothing left.
void EventLog::Writer::fill_buffer() {
  std::string& buffer = output_.buffer();
  if (buffer.size() >= kWriteBytes || !have_chunk()) return;
  const std::size_t used = buffer.size();
  buffer.resize(kWriteBytes + 2 * EdgeLineWriter::kLineBytesMax);
  char* out = buffer.data() + used;
  const char* const enough = buffer.data() + kWriteBytes;
  while (out < enough && have_chunk())
    out = format_chunk(out, enough);
  buffer.resize(static_cast<std::size_t>(out - buffer.data()));
}

/// Makes current_ a chunk with something to write; false when the queue is empty.
bool EventLog::Writer::have_chunk() {
  if (current_) return true;
  const MutexLock lock(mutex_);
  if (const auto rotation = std::exchange(rotation_wanted_, std::nullopt)) {
    output_.set_rotation(rotation->bytes, rotation->keep);
  }
  if (queue_.empty()) return false;
  current_ = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

/// Formats edges of current_ until it is done or `out` passes `enough`, by two lines at most.
char* EventLog::Writer::format_chunk(char* out, const char* enough) {
  Missing& missing = current_->missing_before;
  if (missing.dropped != 0) {
    out = lines_.write_gap(missing.dropped, missing.first_seq, missing.last_seq, out);
    missing = {};
  }
  const std::vector<std::uint64_t>& seqs = current_->seqs;
  for (; next_edge_ < seqs.size() && out < enough; ++next_edge_) {
    out = lines_.write_edge(current_->edges.at(next_edge_), current_->epoch, seqs[next_edge_],
                            current_->clock, out);
    ++edges_in_buffer_;
  }
  if (next_edge_ == seqs.size()) {
    current_.reset();
    next_edge_ = 0;
  }
  return out;
}

void EventLog::Writer::write_buffer() {
  const std::size_t bytes = output_.flush(MonoClock::now());
  if (bytes > 0) {
    const std::string_view gone = std::string_view(output_.buffer()).substr(0, bytes);
    const bool all = bytes == output_.buffer().size();
    const std::size_t edges = all ? edges_in_buffer_ : count_edge_lines(gone);
    edges_in_buffer_ -= edges;
    written_.add(edges);
    output_.drop_front(bytes);
  }
  errors_.set(static_cast<std::int64_t>(output_.errors()));
}

/// True when stopping and either everything is written or time is up.
bool EventLog::Writer::finished() {
  const MutexLock lock(mutex_);
  if (!stop_by_) return false;
  if (!stopping_by_) {
    stopping_by_ = stop_by_;
    output_.retry_now();  // one attempt now, whatever the patience was
    return false;
  }
  if (MonoClock::now() >= *stopping_by_) return true;
  return queue_.empty() && !current_ && output_.buffer().empty();
}

/// Until there is something to do: at once while more can be written, at the next attempt while the
/// file refuses.
void EventLog::Writer::sleep() {
  if (const auto retry_at = output_.retry_at()) {
    static_cast<void>(
        wake_.wait_until(stopping_by_ ? std::min(*retry_at, *stopping_by_) : *retry_at));
  } else if (output_.buffer().empty() && !have_chunk() && !stopping_by_) {
    wake_.wait();
  }
}

// EventLog.

EventLog::EventLog(const Options& options) : stop_within_(options.stop_within) {
  if (options.path.empty()) return;
  if (options.offline_path.empty()) {
    writers_.push_back(std::make_shared<Writer>(options, options.path, std::nullopt));
  } else {
    writers_.push_back(std::make_shared<Writer>(options, options.path, EdgeKind::kOnline));
    writers_.push_back(std::make_shared<Writer>(options, options.offline_path, EdgeKind::kOffline));
  }
  writers_.front()->start("pw-events");
  if (writers_.size() > 1) writers_.back()->start("pw-events-off");
}

EventLog::~EventLog() {
  const MonoTime deadline = MonoClock::now() + stop_within_;
  for (const auto& writer : writers_)
    writer->begin_stop(deadline);
  for (const auto& writer : writers_)
    writer->finish_stop(deadline);
}

void EventLog::on_edges(const SequencedBatch& batch) {
  for (const auto& writer : writers_)
    writer->append(batch);
}

void EventLog::on_gap(const SequenceGap& gap) {
  for (const auto& writer : writers_)
    writer->add_gap(gap);
}

void EventLog::reopen() noexcept {
  for (const auto& writer : writers_)
    writer->reopen();
}

void EventLog::set_rotation(std::uint64_t bytes, std::uint32_t keep) {
  for (const auto& writer : writers_)
    writer->set_rotation(bytes, keep);
}

EventLog::Stats EventLog::stats() const noexcept {
  Stats stats;
  for (const auto& writer : writers_)
    writer->add_to(stats);
  return stats;
}

}  // namespace pulsewheel
