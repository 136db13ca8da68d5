// EventRing: the newest edges in memory, for those who follow them over HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/event_cursor.h"
#include "daemon/base/mutex.h"
#include "daemon/base/time.h"
#include "daemon/events/edge_line.h"
#include "daemon/events/sequencer.h"

namespace pulsewheel {

/// Consecutive events as they are sent (Server-Sent Events), wrapped here:
///
///     id: 3-12
///     data: {"seq":12,"epoch":3,"uid":"alice",...}
///
///     id: 3-14
///     event: gap
///     data: {"gap":true,"dropped":2,"first_seq":13,"last_seq":14}
///
/// The data is the line that the event log has. Immutable, made once, shared by all who follow.
struct EventText {
  std::string sse;
  std::vector<std::uint32_t> begins;  // of each event in `sse`
  std::uint64_t first_seq = 0;
};

/// Keeps at least the `entries_min` newest events (an edge or a gap) and at most kChunkEdges more;
/// those before them are forgotten. An edge takes about 60 B, which are there from the start: what
/// the daemon needs does not grow with what happens, and no memory is missing when much does. Only
/// uids of more than kUidBytes on average take more, and text, which is made when somebody first
/// follows the edge, and kept for the others: five times as much. With the longest uids, of odd
/// bytes, that is 1 KiB.
///
/// The sequencer's thread adds, any other reads. What both wait for is a lock that is held for
/// the copying or formatting of kChunkEdges edges at most, about 10 us.
class EventRing final : public EdgeSink {
 public:
  struct Options {
    std::size_t entries_min = 65'536;
    std::uint64_t epoch = 1;
    std::uint64_t first_seq = 1;  // of the first edge; a greater one begins the ring there
    /// The epoch of a run that this one continues: a cursor behind its edge `first_seq - 1` is as
    /// good as one of this epoch. 0: none.
    std::uint64_t continued_epoch = 0;
  };
  /// Edges that lie together, and are formatted together: enough to make system calls rare, and
  /// few enough (40 KB of text) to be what a follower who does not read holds on to.
  static constexpr std::size_t kChunkEdges = 128;
  /// Of a uid, as much as memory is kept for.
  static constexpr std::size_t kUidBytes = 16;

  /// Takes the memory: about 2 ms for the default.
  explicit EventRing(const Options& options);

  /// From now on, `on_news` is called when there is an event behind a place for which arm() has
  /// said that there was none: once for all that has been asked since the last call, on the thread
  /// that adds. Call before anything is added.
  void set_on_news(std::function<void()> on_news) { on_news_ = std::move(on_news); }

  // The sequencer's thread.
  void on_edges(const SequencedBatch& batch) override;
  void on_gap(const SequenceGap& gap) override;

  // Any thread.

  enum class Place : std::uint8_t {
    kNewest,      // nothing has happened since
    kInside,      // there are events behind it
    kTooOld,      // some of the events behind it are forgotten
    kOtherEpoch,  // of another run of the node
    kAhead,       // behind events that there have not been
  };
  struct Events {
    Place place = Place::kNewest;
    std::shared_ptr<const EventText> text;  // of kInside
    std::size_t begin = 0;  // where in text->sse the first event behind the cursor starts
    EventCursor last;       // where to go on: behind the events of `text`, or where the cursor is
  };
  /// The next events behind `cursor`, kChunkEdges of them at most. With a `uid`, only the edges of
  /// that user, and gaps: the text may then be empty although `last` has moved on. O(log entries),
  /// and O(kChunkEdges) where they have to be formatted.
  [[nodiscard]] Events after(EventCursor cursor, std::string_view uid = {});

  /// False when after(cursor) would not be kNewest. Else asks for a call of `on_news`.
  [[nodiscard]] bool arm(EventCursor cursor);

  /// A change of one user's state.
  struct PastEdge {
    std::uint64_t seq = 0;
    EdgeKind kind = EdgeKind::kOnline;
    EdgeReason reason = EdgeReason::kLogin;
    WallTime at;
    std::optional<WallTime> last_seen;  // nullopt: nobody here has seen the user
  };
  /// The newest `count` edges of a user, the newest first, as far as the memory reaches.
  /// O(entries), some 0.3 ms; nobody waits for more than a chunk of it.
  [[nodiscard]] std::vector<PastEdge> edges_of(std::string_view uid, std::size_t count) const;

  /// Behind the newest event.
  [[nodiscard]] EventCursor newest() const { return back(0); }
  /// `events` before that, or as far as the memory reaches.
  [[nodiscard]] EventCursor back(std::uint64_t events) const;

 private:
  /// Edges with consecutive numbers, or one gap.
  struct Chunk {
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    bool is_gap = false;
    EdgeBatch edges;                                      // empty: a gap
    WallClockMapping clock;                               // of their times
    std::vector<std::shared_ptr<const EventText>> texts;  // of the front part of the edges
    std::uint64_t next_text_seq = 0;                      // the first one that has no text yet

    [[nodiscard]] std::size_t entries() const noexcept { return is_gap ? 1 : edges.size(); }
  };

  std::size_t append_some(const SequencedBatch& batch, std::size_t from,
                          const WallClockMapping& clock) PULSEWHEEL_REQUIRES(mutex_);
  Chunk& open_chunk(std::uint64_t next_seq) PULSEWHEEL_REQUIRES(mutex_);
  void begin_at(std::uint64_t seq) PULSEWHEEL_REQUIRES(mutex_);
  void forget_old() PULSEWHEEL_REQUIRES(mutex_);
  void add_edges_of(std::string_view uid, const Chunk& chunk, std::size_t count,
                    std::vector<PastEdge>& out) const PULSEWHEEL_REQUIRES(mutex_);
  void tell_news();
  void forget_oldest() PULSEWHEEL_REQUIRES(mutex_);
  [[nodiscard]] Place place_of(EventCursor cursor) const PULSEWHEEL_REQUIRES(mutex_);
  [[nodiscard]] Chunk& chunk_with(std::uint64_t seq) PULSEWHEEL_REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<const EventText> text_with(Chunk& chunk, std::uint64_t seq)
      PULSEWHEEL_REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<const EventText> text_of_user(const Chunk& chunk,
                                                              std::uint64_t from_seq,
                                                              std::string_view uid)
      PULSEWHEEL_REQUIRES(mutex_);
  void add_event(const Chunk& chunk, std::size_t edge, EventText& text) PULSEWHEEL_REQUIRES(mutex_);
  void add_gap(const Chunk& chunk, EventText& text) PULSEWHEEL_REQUIRES(mutex_);

  const Options options_;
  std::function<void()> on_news_;

  mutable Mutex mutex_;
  std::deque<Chunk> chunks_ PULSEWHEEL_GUARDED_BY(mutex_);
  std::vector<EdgeBatch> spare_ PULSEWHEEL_GUARDED_BY(mutex_);  // for the next chunks
  std::size_t entries_ PULSEWHEEL_GUARDED_BY(mutex_) = 0;
  std::uint64_t forgotten_seq_ PULSEWHEEL_GUARDED_BY(mutex_);  // up to this one
  std::uint64_t newest_seq_ PULSEWHEEL_GUARDED_BY(mutex_);
  bool armed_ PULSEWHEEL_GUARDED_BY(mutex_) = false;
  EdgeLineWriter lines_ PULSEWHEEL_GUARDED_BY(mutex_);
};

}  // namespace pulsewheel
