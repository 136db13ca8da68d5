// ManyUsers: what the shards know of thousands of users, found out without holding them up.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/core/presence_registry.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// One of them. `last_seen` counts the packets of live sessions, too.
struct KnownUser {
  std::string uid;
  UserView view;
};

/// Asks in two steps: the home shards for the users, in one post each, then the sessions' shards
/// for the last packets, in one post each. A shard does its part as PacedWork; what is sorted and
/// put together in between, and `done`, is work for the asker's thread. Shared by those who still
/// work on it; asker and shards outlive it.
class ManyUsers : public std::enable_shared_from_this<ManyUsers> {
 public:
  using Done = std::function<void(std::vector<KnownUser>)>;

  using Executor = boost::asio::io_context::executor_type;

  ManyUsers(const std::vector<Shard*>& shards, Executor asker) : shards_(shards), asker_(asker) {}

  /// Looks up `uids`; the answer has their order, and as many. On the
  /// asker's thread; call once.
  void find(std::vector<std::string> uids, Done done);

  /// A place in the list of all users who are online.
  struct ListCursor {
    ShardIndex shard = 0;
    std::uint32_t slot = 0;  // of the shard's user slab
  };
  using ListDone = std::function<void(std::vector<KnownUser>, std::optional<ListCursor> next)>;
  /// The next `count` users, or fewer at the end of the list: then without a `next`. Requires a
  /// cursor whose shard exists. On the asker's thread; call once.
  void list(ListCursor from, std::size_t count, ListDone done);

 private:
  class FindPart;
  class ListPart;
  class SessionsPart;
  /// A live session, and whose it is.
  struct Wanted {
    std::vector<Shard::LiveSession> sessions;
    std::vector<std::size_t> owners;  // numbers in users_
  };

  void list_next(ShardIndex shard, std::uint32_t slot);
  void on_part_done(void (ManyUsers::*then)());
  void ask_sessions();
  void finish();

  const std::vector<Shard*>& shards_;
  const Executor asker_;
  std::vector<KnownUser> users_;
  std::vector<Wanted> wanted_;  // by shard
  std::atomic<std::size_t> parts_missing_{0};
  std::size_t count_ = 0;           // to list
  std::optional<ListCursor> next_;  // behind those that were listed
  ListDone done_;
};

}  // namespace pulsewheel
