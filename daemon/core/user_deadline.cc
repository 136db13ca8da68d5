#include "daemon/core/user_deadline.h"

#include <limits>

#include "daemon/base/check.h"

namespace pulsewheel {

void DeadlineBatch::push(const UserDeadline& user) {
  PULSEWHEEL_CHECK(user.uid.size() <= std::numeric_limits<std::uint8_t>::max());
  PULSEWHEEL_CHECK(uids_.size() <= std::numeric_limits<std::uint32_t>::max());
  const auto uid_offset = static_cast<std::uint32_t>(uids_.size());
  uids_.append(user.uid);  // first: bytes that no record points at do no harm
  records_.push_back(
      {user.deadline, user.last_seen, uid_offset, static_cast<std::uint8_t>(user.uid.size())});
}

UserDeadline DeadlineBatch::at(std::size_t i) const noexcept {
  PULSEWHEEL_CHECK(i < records_.size());
  const Record& r = records_[i];
  return {std::string_view(uids_).substr(r.uid_offset, r.uid_size), r.deadline, r.last_seen};
}

}  // namespace pulsewheel
