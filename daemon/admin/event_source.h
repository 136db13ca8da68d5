// EventSource: the edges that the HTTP port tells to those who follow. The server implements it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>

#include "daemon/base/event_cursor.h"

namespace pulsewheel {

/// Called on the HTTP thread.
class EventSource {
 public:
  virtual ~EventSource() = default;

  /// Whole events, each with its id and one line of data, as Server-Sent Events; or none, where
  /// others have been skipped.
  struct Text {
    std::shared_ptr<const void> owner;  // what `sse` lies in
    std::string_view sse;
    EventCursor last;  // where to go on
  };
  /// There is nobody who could tell what happened behind the cursor.
  struct Lost {
    std::string_view why;  // for programs
    EventCursor newest;
  };
  struct Nothing {};  // has happened
  using After = std::variant<Nothing, Text, Lost>;
  /// Some of what happened behind `cursor`: all edges, or with a `uid` those of that user.
  virtual After after(EventCursor cursor, std::string_view uid) = 0;

  /// `events` before the newest one, or as far back as there are any.
  [[nodiscard]] virtual EventCursor back(std::uint64_t events) const = 0;

  /// Calls `on_news` once, never from within this call, when after(cursor) may say something else
  /// than Nothing; unless stop_waiting() comes first.
  using WaitId = std::uint64_t;
  [[nodiscard]] virtual WaitId wait(EventCursor cursor, std::function<void()> on_news) = 0;
  virtual void stop_waiting(WaitId wait) noexcept = 0;

  /// That of the HTTP thread, for timers.
  [[nodiscard]] virtual boost::asio::io_context::executor_type executor() = 0;
};

/// One wait, which ends with the object. `source` outlives it.
class EventWait {
 public:
  EventWait(EventSource& source, EventCursor cursor, std::function<void()> on_news)
      : source_(source), id_(source.wait(cursor, std::move(on_news))) {}
  ~EventWait() { source_.stop_waiting(id_); }
  EventWait(const EventWait&) = delete;
  EventWait& operator=(const EventWait&) = delete;

 private:
  EventSource& source_;
  const EventSource::WaitId id_;
};

}  // namespace pulsewheel
