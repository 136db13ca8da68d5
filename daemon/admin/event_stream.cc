#include "daemon/admin/event_stream.h"

#include <utility>
#include <variant>

namespace pulsewheel {

namespace {

// How long a browser waits before it comes back.
constexpr std::string_view kRetry = "retry: 2000\n";
// How much a follower of one user may skip at a time, before others have their turn.
constexpr int kTextsPerTurn = 64;

}  // namespace

std::string resync_json(const EventSource::Lost& lost) {
  std::string json = R"({"resync":true,"reason":")";
  json.append(lost.why);
  json.append(R"(","cursor":")").append(lost.newest.to_string());
  return json.append(R"(","snapshot":"/v1/users?state=online"})");
}

EventStream::EventStream(EventSource& source, EventCursor cursor, std::string uid)
    : source_(source), cursor_(cursor), uid_(std::move(uid)) {}

BodyStream::Piece EventStream::next(std::function<void()> on_ready) {
  wait_.reset();
  if (!std::exchange(begun_, true)) {
    // An id without data is no event, but from now on the follower knows where it is.
    return own(std::string(kRetry) + "id: " + cursor_.to_string() + "\n\n");
  }
  for (int texts = 0; texts < kTextsPerTurn; ++texts) {
    const EventSource::After after = source_.after(cursor_, uid_);
    if (const auto* lost = std::get_if<EventSource::Lost>(&after)) {
      cursor_ = lost->newest;
      return own("id: " + cursor_.to_string() + "\nevent: resync\ndata: " + resync_json(*lost) +
                 "\n\n");
    }
    const auto* text = std::get_if<EventSource::Text>(&after);
    if (text == nullptr) break;
    cursor_ = text->last;
    if (!text->sse.empty()) return {text->owner, text->sse};
  }
  wait_.emplace(source_, cursor_, std::move(on_ready));
  return {};
}

/// A comment. A follower of one user learns how far that is, too: else it would be told to resync
/// after a pause in which nothing happened to this user.
BodyStream::Piece EventStream::heartbeat() {
  if (uid_.empty()) return {nullptr, ":\n\n"};
  return own(":\nid: " + cursor_.to_string() + "\n\n");
}

BodyStream::Piece EventStream::own(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {owner, *owner};
}

}  // namespace pulsewheel
