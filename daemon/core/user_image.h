// UserImage: what of a user outlives the process, on its way into a snapshot and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/base/time.h"
#include "daemon/core/edge.h"

namespace pulsewheel {

/// One session of a user. Of a live one the home shard knows the login only: its own shard fills in
/// the rest.
struct SessionImage {
  SessionRef session{};                      // generation 0: lingering
  EdgeReason ending = EdgeReason::kTimeout;  // what running out is to be called
  MonoTime login_at;
  MonoTime last_packet;
  MonoTime deadline;
  std::string_view device;  // empty: no label

  [[nodiscard]] bool live() const noexcept { return session.generation != 0; }
};

/// A user, online exactly when it has sessions.
struct UserImage {
  std::string_view uid;
  MonoTime since;      // of the state
  MonoTime last_seen;  // the newest packet that the home shard knows of
  std::uint32_t first_session = 0;
  std::uint32_t session_count = 0;

  [[nodiscard]] bool online() const noexcept { return session_count > 0; }
};

/// Users with their sessions, and the bytes of both. Moved from thread to thread whole. Where
/// memory runs out std::bad_alloc is thrown; the batch is then good for nothing but destruction.
class UserImageBatch {
 public:
  UserImageBatch() = default;
  UserImageBatch(UserImageBatch&&) noexcept = default;
  UserImageBatch& operator=(UserImageBatch&&) noexcept = default;

  /// Copies a user and its uid, without sessions: `user`'s own numbers of them do not count.
  void add(const UserImage& user);
  /// Adds a session, and a copy of its label, to the user that was added last.
  void add_session(const SessionImage& session);

  [[nodiscard]] std::size_t size() const noexcept { return users_.size(); }
  [[nodiscard]] bool empty() const noexcept { return users_.empty(); }
  [[nodiscard]] const std::vector<UserImage>& users() const noexcept { return users_; }
  [[nodiscard]] std::span<const SessionImage> sessions_of(const UserImage& user) const noexcept {
    return std::span(sessions_).subspan(user.first_session, user.session_count);
  }
  /// Of all users, in order, to be filled in.
  [[nodiscard]] std::span<SessionImage> sessions() noexcept { return sessions_; }
  /// A user has been seen when its sessions have: for users whose sessions were filled in.
  void raise_last_seen() noexcept;

 private:
  [[nodiscard]] std::string_view keep(std::string_view bytes);

  // Views into it stay good while the batch grows and moves.
  std::unique_ptr<std::pmr::monotonic_buffer_resource> bytes_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::vector<UserImage> users_;
  std::vector<SessionImage> sessions_;
};

}  // namespace pulsewheel
