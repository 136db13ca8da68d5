#include "daemon/ctl/sse.h"

#include <algorithm>
#include <utility>

namespace pulsewheel::ctl {

bool SseReader::feed(std::string_view bytes) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != rest_.npos; end = rest_.find('\n', begin)) {
    std::string_view line = std::string_view(rest_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line);
    begin = end + 1;
  }
  rest_.erase(0, begin);
  return rest_.size() <= kLineBytesMax;
}

void SseReader::take_line(std::string_view line) {
  if (line.empty()) {
    if (!event_.id.empty()) last_event_id_ = event_.id;
    if (std::exchange(has_data_, false)) on_event_(event_);
    event_.event.clear();
    event_.data.clear();
    return;
  }
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "id") {
    event_.id = value;
  } else if (field == "event") {
    event_.event = value;
  } else if (field == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  }
}

}  // namespace pulsewheel::ctl
