#include "daemon/events/event_ring.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/put_text.h"

namespace pulsewheel {
namespace {

constexpr std::string_view kIdField = "id: ";
constexpr std::string_view kGapField = "event: gap\n";
constexpr std::string_view kDataField = "data: ";
/// Room that one event needs at most.
constexpr std::size_t kEventBytesMax = kIdField.size() + 2 * kDigitsMax + 2 + kGapField.size() +
                                       kDataField.size() + EdgeLineWriter::kLineBytesMax + 1;

char* put_id(char* out, std::uint64_t epoch, std::uint64_t seq) noexcept {
  out = put(out, kIdField);
  out = put(out, epoch);
  *out++ = '-';
  out = put(out, seq);
  *out++ = '\n';
  return out;
}

}  // namespace

EventRing::EventRing(const Options& options)
    : options_(options), forgotten_seq_(options.first_seq - 1), newest_seq_(options.first_seq - 1) {
  PULSEWHEEL_CHECK(options.first_seq >= 1);
  // One is being filled, and the oldest is forgotten only when the others are enough.
  const MutexLock lock(mutex_);
  spare_.resize(options.entries_min / kChunkEdges + 2);
  for (EdgeBatch& batch : spare_)
    batch.reserve(kChunkEdges, kChunkEdges * kUidBytes);
}

// The sequencer's side.

void EventRing::on_edges(const SequencedBatch& batch) {
  PULSEWHEEL_CHECK(batch.epoch == options_.epoch);
  const WallClockMapping clock;
  for (std::size_t next = 0; next < batch.edges->size();) {
    const MutexLock lock(mutex_);  // taken anew for each chunk: readers get in between
    next = append_some(batch, next, clock);
    forget_old();
  }
  tell_news();
}

/// Copies edges into one chunk, from number `from` on; returns the number of the next one.
std::size_t EventRing::append_some(const SequencedBatch& batch, std::size_t from,
                                   const WallClockMapping& clock) {
  Chunk& chunk = open_chunk(batch.first_seq + from);
  // A chunk that fills slowly lives through steps of the wall clock: what its own mapping makes of
  // these times must be what the clock says now.
  const Duration step = clock.ahead_of(chunk.clock);
  const std::size_t end = std::min(batch.edges->size(), from + kChunkEdges - chunk.edges.size());
  for (std::size_t i = from; i < end; ++i) {
    Edge edge = batch.edges->at(i);
    edge.at += step;
    if (edge.last_seen != kLastSeenUnknown) edge.last_seen += step;
    chunk.edges.push(edge);
  }
  newest_seq_ = batch.first_seq + end - 1;
  chunk.last_seq = newest_seq_;
  entries_ += end - from;
  return end;
}

/// The chunk to add `next_seq` to: the last one if it has room, else a new one.
EventRing::Chunk& EventRing::open_chunk(std::uint64_t next_seq) {
  if (chunks_.empty()) begin_at(next_seq);
  PULSEWHEEL_CHECK(next_seq == newest_seq_ + 1);
  if (!chunks_.empty()) {
    Chunk& last = chunks_.back();
    if (!last.is_gap && last.edges.size() < kChunkEdges) return last;
  }
  Chunk& chunk = chunks_.emplace_back();
  chunk.first_seq = next_seq;
  chunk.next_text_seq = next_seq;
  if (!spare_.empty()) {
    chunk.edges = std::move(spare_.back());
    spare_.pop_back();
  }
  return chunk;
}

/// The first edge has the number it has, whatever was expected of it.
void EventRing::begin_at(std::uint64_t seq) {
  PULSEWHEEL_CHECK(seq > newest_seq_);
  forgotten_seq_ = newest_seq_ = seq - 1;
}

void EventRing::on_gap(const SequenceGap& gap) {
  {
    const MutexLock lock(mutex_);
    if (chunks_.empty()) begin_at(gap.first_seq);
    PULSEWHEEL_CHECK(gap.epoch == options_.epoch && gap.first_seq == newest_seq_ + 1);
    Chunk& chunk = chunks_.emplace_back();
    chunk.first_seq = gap.first_seq;
    chunk.next_text_seq = gap.first_seq;
    chunk.last_seq = gap.last_seq;
    chunk.is_gap = true;
    newest_seq_ = gap.last_seq;
    ++entries_;
    forget_old();
  }
  tell_news();
}

void EventRing::forget_old() {
  while (entries_ - chunks_.front().entries() >= options_.entries_min)
    forget_oldest();
}

void EventRing::forget_oldest() {
  Chunk& oldest = chunks_.front();
  entries_ -= oldest.entries();
  forgotten_seq_ = oldest.last_seq;
  if (!oldest.is_gap) {
    oldest.edges.clear();
    spare_.push_back(std::move(oldest.edges));
  }
  chunks_.pop_front();
}

void EventRing::tell_news() {
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    wanted = std::exchange(armed_, false);
  }
  if (wanted) on_news_();
}

// The readers' side.

EventRing::Place EventRing::place_of(EventCursor cursor) const {
  const bool continued = cursor == EventCursor{options_.continued_epoch, options_.first_seq - 1};
  if (cursor.epoch != options_.epoch && !continued) return Place::kOtherEpoch;
  if (cursor.seq > newest_seq_) return Place::kAhead;
  if (cursor.seq < forgotten_seq_) return Place::kTooOld;
  return cursor.seq == newest_seq_ ? Place::kNewest : Place::kInside;
}

EventRing::Events EventRing::after(EventCursor cursor, std::string_view uid) {
  const MutexLock lock(mutex_);
  Events events{place_of(cursor), nullptr, 0, {options_.epoch, cursor.seq}};
  if (events.place != Place::kInside) return events;
  Chunk& chunk = chunk_with(cursor.seq + 1);
  if (!uid.empty()) {
    events.text = text_of_user(chunk, cursor.seq + 1, uid);
    events.last.seq = chunk.last_seq;
    return events;
  }
  events.text = text_with(chunk, cursor.seq + 1);
  if (chunk.is_gap) {
    events.last.seq = chunk.last_seq;
    return events;
  }
  const EventText& text = *events.text;
  events.begin = text.begins[cursor.seq + 1 - text.first_seq];
  events.last.seq = text.first_seq + text.begins.size() - 1;
  return events;
}

EventRing::Chunk& EventRing::chunk_with(std::uint64_t seq) {
  const auto found = std::partition_point(
      chunks_.begin(), chunks_.end(), [seq](const Chunk& chunk) { return chunk.last_seq < seq; });
  PULSEWHEEL_CHECK(found != chunks_.end());
  return *found;
}

/// The text that holds the event `seq` of this chunk. Those that have none yet get one together.
std::shared_ptr<const EventText> EventRing::text_with(Chunk& chunk, std::uint64_t seq) {
  if (seq < chunk.next_text_seq) {
    const auto behind = std::partition_point(
        chunk.texts.begin(), chunk.texts.end(),
        [seq](const std::shared_ptr<const EventText>& text) { return text->first_seq <= seq; });
    return *std::prev(behind);
  }
  auto text = std::make_shared<EventText>();
  text->first_seq = chunk.next_text_seq;
  if (chunk.is_gap) add_gap(chunk, *text);
  for (std::size_t i = chunk.next_text_seq - chunk.first_seq; i < chunk.edges.size(); ++i)
    add_event(chunk, i, *text);
  text->sse.shrink_to_fit();
  chunk.next_text_seq = chunk.last_seq + 1;
  chunk.texts.push_back(text);
  return text;
}

std::shared_ptr<const EventText> EventRing::text_of_user(const Chunk& chunk, std::uint64_t from_seq,
                                                         std::string_view uid) {
  auto text = std::make_shared<EventText>();
  text->first_seq = from_seq;
  if (chunk.is_gap) add_gap(chunk, *text);
  for (std::size_t i = from_seq - chunk.first_seq; i < chunk.edges.size(); ++i) {
    if (chunk.edges.at(i).uid == uid) add_event(chunk, i, *text);
  }
  return text;
}

void EventRing::add_event(const Chunk& chunk, std::size_t edge, EventText& text) {
  std::array<char, kEventBytesMax> buffer;
  const std::uint64_t seq = chunk.first_seq + edge;
  char* out = put_id(buffer.data(), options_.epoch, seq);
  out = put(out, kDataField);
  out = lines_.write_edge(chunk.edges.at(edge), options_.epoch, seq, chunk.clock, out);
  *out++ = '\n';
  text.begins.push_back(static_cast<std::uint32_t>(text.sse.size()));
  text.sse.append(buffer.data(), out);
}

void EventRing::add_gap(const Chunk& chunk, EventText& text) {
  std::array<char, kEventBytesMax> buffer;
  char* out = put_id(buffer.data(), options_.epoch, chunk.last_seq);
  out = put(out, kGapField);
  out = put(out, kDataField);
  out =
      lines_.write_gap(chunk.last_seq - chunk.first_seq + 1, chunk.first_seq, chunk.last_seq, out);
  *out++ = '\n';
  text.begins.push_back(static_cast<std::uint32_t>(text.sse.size()));
  text.sse.append(buffer.data(), out);
}

bool EventRing::arm(EventCursor cursor) {
  const MutexLock lock(mutex_);
  if (place_of(cursor) != Place::kNewest) return false;
  armed_ = true;
  return true;
}

EventCursor EventRing::back(std::uint64_t events) const {
  const MutexLock lock(mutex_);
  return {options_.epoch, newest_seq_ - std::min(events, newest_seq_ - forgotten_seq_)};
}

std::vector<EventRing::PastEdge> EventRing::edges_of(std::string_view uid,
                                                     std::size_t count) const {
  std::vector<PastEdge> found;
  std::uint64_t before_seq = std::numeric_limits<std::uint64_t>::max();
  while (found.size() < count) {
    const MutexLock lock(mutex_);  // taken anew for each chunk: others get in between
    const auto behind = std::partition_point(
        chunks_.begin(), chunks_.end(),
        [before_seq](const Chunk& chunk) { return chunk.first_seq < before_seq; });
    if (behind == chunks_.begin()) break;
    const Chunk& chunk = *std::prev(behind);
    before_seq = chunk.first_seq;
    add_edges_of(uid, chunk, count, found);
  }
  return found;
}

void EventRing::add_edges_of(std::string_view uid, const Chunk& chunk, std::size_t count,
                             std::vector<PastEdge>& out) const {
  for (std::size_t i = chunk.edges.size(); i > 0 && out.size() < count; --i) {
    const Edge edge = chunk.edges.at(i - 1);
    if (edge.uid != uid) continue;
    PastEdge& past = out.emplace_back();
    past.seq = chunk.first_seq + i - 1;
    past.kind = edge.kind;
    past.reason = edge.reason;
    past.at = chunk.clock.to_wall(edge.at);
    if (edge.last_seen != kLastSeenUnknown) past.last_seen = chunk.clock.to_wall(edge.last_seen);
  }
}

}  // namespace pulsewheel
