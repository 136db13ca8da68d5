#include "daemon/core/edge.h"

#include <limits>

#include "daemon/base/check.h"

namespace pulsewheel {

std::string_view to_string(EdgeKind kind) noexcept {
  return kind == EdgeKind::kOnline ? "online" : "offline";
}

std::string_view to_string(EdgeReason reason) noexcept {
  switch (reason) {
    case EdgeReason::kLogin:
      return "login";
    case EdgeReason::kTimeout:
      return "timeout";
    case EdgeReason::kLogout:
      return "logout";
    case EdgeReason::kDisconnect:
      return "disconnect";
    case EdgeReason::kKicked:
      return "kicked";
    case EdgeReason::kShutdown:
      return "shutdown";
  }
  return "?";
}

void EdgeBatch::reserve(std::size_t edges, std::size_t uid_bytes) {
  PULSEWHEEL_CHECK(empty());
  records_.resize(edges);
  uids_.resize(uid_bytes);
  clear();
}

void EdgeBatch::push(const Edge& edge) {
  PULSEWHEEL_CHECK(edge.uid.size() <= 255);
  PULSEWHEEL_CHECK(uids_.size() <= std::numeric_limits<std::uint32_t>::max());
  const auto uid_offset = static_cast<std::uint32_t>(uids_.size());
  uids_.append(
      edge.uid);  // first: bytes that no record points at do no harm if the next one throws
  records_.push_back({edge.at, edge.last_seen, edge.due, uid_offset, edge.sessions,
                      static_cast<std::uint8_t>(edge.uid.size()), edge.kind, edge.reason});
}

Edge EdgeBatch::at(std::size_t i) const noexcept {
  PULSEWHEEL_CHECK(i < records_.size());
  const Record& r = records_[i];
  return {std::string_view(uids_).substr(r.uid_offset, r.uid_size),
          r.at,
          r.last_seen,
          r.due,
          r.sessions,
          r.kind,
          r.reason};
}

void EdgeBatch::clear() noexcept {
  records_.clear();
  uids_.clear();
}

}  // namespace pulsewheel
