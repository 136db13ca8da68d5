#include "daemon/server/many_users.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace pulsewheel {

/// The users of one home shard, of those that were asked for.
class ManyUsers::FindPart final : public PacedWork {
 public:
  FindPart(std::shared_ptr<ManyUsers> whole, std::vector<std::size_t> numbers)
      : whole_(std::move(whole)), numbers_(std::move(numbers)) {}

  bool do_portion(Shard& shard) override {
    const std::size_t end = std::min(numbers_.size(), next_ + Shard::kPortion);
    for (; next_ < end; ++next_) {
      KnownUser& user = whole_->users_[numbers_[next_]];
      user.view = shard.find_user(user.uid);
    }
    if (next_ < numbers_.size()) return false;
    whole_->on_part_done(&ManyUsers::ask_sessions);
    return true;
  }

 private:
  const std::shared_ptr<ManyUsers> whole_;
  const std::vector<std::size_t> numbers_;
  std::size_t next_ = 0;
};

/// The users of one shard, from a slot on.
class ManyUsers::ListPart final : public PacedWork {
 public:
  ListPart(std::shared_ptr<ManyUsers> whole, std::uint32_t slot)
      : whole_(std::move(whole)), slot_(slot) {}

  bool do_portion(Shard& shard) override {
    std::vector<KnownUser>& users = whole_->users_;
    std::vector<ListedUser> portion;
    const bool more = shard.list_online(&slot_, whole_->count_ - users.size(), portion);
    for (ListedUser& user : portion)
      users.push_back({std::move(user.uid), std::move(user.view)});
    if (more && users.size() < whole_->count_) return false;
    const ShardIndex index = shard.options().index;
    if (more) {
      whole_->list_next(index, slot_);
    } else {
      whole_->list_next(static_cast<ShardIndex>(index + 1), 0);
    }
    return true;
  }

 private:
  const std::shared_ptr<ManyUsers> whole_;
  std::uint32_t slot_;
};

/// The live sessions of one shard, of those that the users have.
class ManyUsers::SessionsPart final : public PacedWork {
 public:
  SessionsPart(std::shared_ptr<ManyUsers> whole, std::vector<Shard::LiveSession>& sessions)
      : whole_(std::move(whole)), left_(sessions) {}

  bool do_portion(Shard& shard) override {
    const std::size_t count = std::min(left_.size(), Shard::kPortion);
    shard.read_sessions(left_.first(count));
    left_ = left_.subspan(count);
    if (!left_.empty()) return false;
    whole_->on_part_done(&ManyUsers::finish);
    return true;
  }

 private:
  const std::shared_ptr<ManyUsers> whole_;
  std::span<Shard::LiveSession> left_;
};

void ManyUsers::find(std::vector<std::string> uids, Done done) {
  done_ = [done = std::move(done)](std::vector<KnownUser> users, std::optional<ListCursor>) {
    done(std::move(users));
  };
  std::vector<std::vector<std::size_t>> by_home(shards_.size());
  const std::uint64_t seed = shards_.front()->options().registry.hash_seed;
  users_.reserve(uids.size());
  for (std::string& uid : uids) {
    by_home[home_shard_of(uid, seed, shards_.size())].push_back(users_.size());
    users_.push_back({std::move(uid), {}});
  }
  const auto asked = std::count_if(by_home.begin(), by_home.end(),
                                   [](const auto& numbers) { return !numbers.empty(); });
  parts_missing_.store(static_cast<std::size_t>(asked));
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (by_home[i].empty()) continue;
    shards_[i]->post(std::make_shared<FindPart>(shared_from_this(), std::move(by_home[i])));
  }
  if (asked == 0) finish();
}

void ManyUsers::list(ListCursor from, std::size_t count, ListDone done) {
  done_ = std::move(done);
  count_ = count;
  parts_missing_.store(1);
  shards_[from.shard]->post(std::make_shared<ListPart>(shared_from_this(), from.slot));
}

/// Goes on with `shard` from `slot` on, if anybody is still wanted, else remembers the place.
void ManyUsers::list_next(ShardIndex shard, std::uint32_t slot) {
  const bool exists = shard < shards_.size();
  if (exists && users_.size() < count_) {
    shards_[shard]->post(std::make_shared<ListPart>(shared_from_this(), slot));
    return;
  }
  if (exists) next_ = ListCursor{shard, slot};
  on_part_done(&ManyUsers::ask_sessions);
}

/// On the thread of a shard; behind the last part the asker goes on.
void ManyUsers::on_part_done(void (ManyUsers::*then)()) {
  if (parts_missing_.fetch_sub(1) > 1) return;
  boost::asio::post(asker_, [self = shared_from_this(), then] { (*self.*then)(); });
}

void ManyUsers::ask_sessions() {
  wanted_.resize(shards_.size());
  for (std::size_t number = 0; number < users_.size(); ++number) {
    for (const UserSession& session : users_[number].view.sessions) {
      if (session.lingering) continue;
      Wanted& wanted = wanted_[session.session.shard];
      wanted.sessions.push_back(
          {.session = session.session, .last_packet = {}, .timeout = {}, .deadline = {}});
      wanted.owners.push_back(number);
    }
  }
  const auto asked = std::count_if(wanted_.begin(), wanted_.end(),
                                   [](const Wanted& wanted) { return !wanted.sessions.empty(); });
  if (asked == 0) return finish();
  parts_missing_.store(static_cast<std::size_t>(asked));
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (wanted_[i].sessions.empty()) continue;
    shards_[i]->post(std::make_shared<SessionsPart>(shared_from_this(), wanted_[i].sessions));
  }
}

void ManyUsers::finish() {
  for (const Wanted& wanted : wanted_) {
    for (std::size_t i = 0; i < wanted.sessions.size(); ++i) {
      if (!wanted.sessions[i].found) continue;
      auto& last_seen = users_[wanted.owners[i]].view.last_seen;
      last_seen = std::max(last_seen.value_or(MonoTime::min()), wanted.sessions[i].last_packet);
    }
  }
  std::exchange(done_, nullptr)(std::move(users_), next_);
}

}  // namespace pulsewheel
