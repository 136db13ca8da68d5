#include "daemon/core/user_image.h"

#include <algorithm>
#include <cstring>

#include "daemon/base/check.h"

namespace pulsewheel {

void UserImageBatch::add(const UserImage& user) {
  users_.push_back({.uid = keep(user.uid),
                    .since = user.since,
                    .last_seen = user.last_seen,
                    .first_session = static_cast<std::uint32_t>(sessions_.size()),
                    .session_count = 0});
}

void UserImageBatch::add_session(const SessionImage& session) {
  PULSEWHEEL_CHECK(!users_.empty());
  sessions_.push_back(session);
  sessions_.back().device = keep(session.device);
  ++users_.back().session_count;
}

void UserImageBatch::raise_last_seen() noexcept {
  for (UserImage& user : users_) {
    for (const SessionImage& session : sessions_of(user))
      user.last_seen = std::max(user.last_seen, session.last_packet);
  }
}

std::string_view UserImageBatch::keep(std::string_view bytes) {
  if (bytes.empty()) return {};
  char* const copy = static_cast<char*>(bytes_->allocate(bytes.size(), 1));
  std::memcpy(copy, bytes.data(), bytes.size());
  return {copy, bytes.size()};
}

}  // namespace pulsewheel
