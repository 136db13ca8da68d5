// SseReader: cuts a stream of Server-Sent Events into events.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace pulsewheel::ctl {

struct SseEvent {
  std::string id;     // the last one that the stream has given
  std::string event;  // its kind; empty: an ordinary one
  std::string data;   // its lines, joined
};

/// Takes the bytes as they come. Comments and fields that it does not know are passed over.
class SseReader {
 public:
  /// `last_event_id`: of the stream that this one goes on from.
  explicit SseReader(std::function<void(const SseEvent&)> on_event, std::string last_event_id = {})
      : on_event_(std::move(on_event)), last_event_id_(std::move(last_event_id)) {}

  /// Calls back for each event that is complete. False when a line is longer than kLineBytesMax:
  /// this is no stream of ours.
  [[nodiscard]] bool feed(std::string_view bytes);

  /// Where to go on when the stream breaks: of the last block that came whole, with or without an
  /// event in it.
  [[nodiscard]] const std::string& last_event_id() const noexcept { return last_event_id_; }

  static constexpr std::size_t kLineBytesMax = 64 * 1024;

 private:
  void take_line(std::string_view line);

  std::function<void(const SseEvent&)> on_event_;
  std::string last_event_id_;
  std::string rest_;  // a line that is not complete
  SseEvent event_;
  bool has_data_ = false;
};

}  // namespace pulsewheel::ctl
