// EventStream: one follower of the edges over Server-Sent Events.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/admin/event_source.h"
#include "daemon/admin/http_message.h"

namespace pulsewheel {

/// The one line of JSON that tells a follower that edges are missing, and what to do about it:
/// remember `newest`, take the snapshot, and go on behind `newest`.
[[nodiscard]] std::string resync_json(const EventSource::Lost& lost);

/// Sends what happens behind a cursor. All that it keeps for its follower is a place in the source:
/// the text is everybody's, so a follower who is slow costs nothing but the piece that is being
/// sent, and is told to resync when the source has forgotten what comes next.
class EventStream final : public BodyStream {
 public:
  /// `uid` empty: everybody's edges. `source` outlives the stream.
  EventStream(EventSource& source, EventCursor cursor, std::string uid);

  Piece next(std::function<void()> on_ready) override;
  Piece heartbeat() override;

 private:
  static Piece own(std::string text);

  EventSource& source_;
  EventCursor cursor_;  // behind what was sent or skipped
  const std::string uid_;
  bool begun_ = false;
  std::optional<EventWait> wait_;
};

}  // namespace pulsewheel
