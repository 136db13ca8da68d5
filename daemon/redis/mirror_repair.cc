#include "daemon/redis/mirror_repair.h"

#include <algorithm>
#include <utility>

#include <boost/system/error_code.hpp>

#include "daemon/base/log.h"
#include "daemon/base/siphash.h"

namespace pulsewheel {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kScanBegin = "0";
const std::string kStepCount = std::to_string(MirrorRepair::kUsersPerStep);

std::optional<std::string> text_of(const RedisReply& reply) {
  return reply.is_string() ? std::optional(reply.text) : std::nullopt;
}

}  // namespace

MirrorRepair::MirrorRepair(boost::asio::io_context& io, const Options& options,
                           const RingScripts& scripts, RedisClient& client, MirrorQueue& queue,
                           RosterSource& rosters, MirrorCounters& counters,
                           std::function<void()> pump)
    : options_(options),
      scripts_(scripts),
      client_(client),
      queue_(queue),
      rosters_(rosters),
      counters_(counters),
      pump_(std::move(pump)),
      timer_(io) {}

// --- Runs ---------------------------------------------------------------------------------------

void MirrorRepair::activate(std::vector<std::string> slots) {
  slots_ = std::move(slots);
  active_ = true;
  on_tick();
}

void MirrorRepair::deactivate() {
  active_ = false;
  give_up();
}

void MirrorRepair::request() {
  wanted_ = true;
  not_before_ = {};
  repeat_ = kRepeatFirst;
  on_tick();
}

void MirrorRepair::on_tick() {
  if (!active_ || running()) return;
  const MonoTime now = MonoClock::now();
  if (wanted_ && now >= not_before_) return start(Purpose::kRepair);
  if (has_beyond_ && now >= next_refile_) start(Purpose::kRefile);
}

void MirrorRepair::start(Purpose purpose) {
  running_ = true;
  ++run_;
  purpose_ = purpose;
  began_ = MonoClock::now();
  next_refile_ = began_ + kRefilePeriod;
  if (purpose == Purpose::kRepair) wanted_ = false;
  has_beyond_ = false;
  has_left_over_ = false;
  users_ = 0;
  differences_ = 0;
  shard_ = 0;
  slot_of_shard_ = 0;
  ring_slot_ = 0;
  cursor_ = std::string(kScanBegin);  // in place, GCC 12 warns of an overlap that cannot be
  ask_roster();
}

void MirrorRepair::finish() {
  running_ = false;
  alive_ = {};
  changed_ = {};
  part_ = nullptr;
  if (purpose_ == Purpose::kRefile) return;
  counters_.repairs.add();
  counters_.differences.set(static_cast<std::int64_t>(differences_));
  counters_.repaired.add(differences_);
  log::info("redis_repair", "compared {} users with Redis in {} ms: {} differed", users_,
            std::chrono::duration_cast<milliseconds>(MonoClock::now() - began_).count(),
            differences_);
  if (differences_ == 0) repeat_ = kRepeatFirst;
  if (differences_ == 0 && has_left_over_ && !wanted_) {
    wanted_ = true;
    not_before_ = MonoClock::now() + kLeftOverWait;
  }
  if (differences_ > 0 && !wanted_) {
    wanted_ = true;
    not_before_ = MonoClock::now() + repeat_;
    repeat_ = std::min(2 * repeat_, kRepeatMax);
  }
}

void MirrorRepair::give_up() {
  if (!running()) return;
  running_ = false;
  timer_.cancel();
  part_ = nullptr;
  alive_ = {};
  changed_ = {};
  has_beyond_ = true;  // nobody knows
  if (purpose_ == Purpose::kRepair) wanted_ = true;
}

bool MirrorRepair::has_room() const noexcept {
  return queue_.size() < kQueueMax && queue_.room() >= kUsersPerStep;
}

/// Replaces what the timer was to do.
void MirrorRepair::after(Duration delay, void (MirrorRepair::*then)()) {
  timer_.expires_after(delay);
  timer_.async_wait([this, then, run = run_](const boost::system::error_code& error) {
    if (!error && running() && run == run_ && timer_.expiry() <= MonoClock::now()) (this->*then)();
  });
}

Duration MirrorRepair::pace(std::size_t users) const noexcept {
  return std::chrono::nanoseconds{std::chrono::seconds{1}} * users / options_.users_per_second;
}

/// `handler` gets the reply if it is none of an error; any trouble gives the run up.
bool MirrorRepair::submit(RedisArgs args, Handler handler) {
  return note_sent(client_.submit(args, in_this_run(std::move(handler))));
}

RedisCallback MirrorRepair::in_this_run(Handler handler) {
  return [this, run = run_, handler = std::move(handler)](std::error_code ec, auto reply) {
    if (!running() || run != run_) return;
    if (ec || reply.is_error()) {
      not_before_ = MonoClock::now() + kRepeatFirst;
      return give_up();
    }
    handler(reply);
  };
}

bool MirrorRepair::note_sent(std::error_code refused) {
  if (refused) give_up();
  return !refused;
}

std::uint64_t MirrorRepair::hash_of(std::string_view uid) const noexcept {
  return siphash13(uid, {options_.seed, 0});
}

bool MirrorRepair::is_beyond(const UserDeadline& user, MonoTime now) const noexcept {
  return user.deadline - now > scripts_.layout().span();
}

// --- News ---------------------------------------------------------------------------------------

void MirrorRepair::note_edge(std::string_view uid) {
  if (!running()) return;
  alive_.insert(hash_of(uid));
  changed_.insert(hash_of(uid));
}

void MirrorRepair::note_deadline(const UserDeadline& user) {
  if (!has_beyond_ && is_beyond(user, MonoClock::now())) {
    has_beyond_ = true;
    next_refile_ = std::max(next_refile_, MonoClock::now() + kRefilePeriod);
  }
  note_edge(user.uid);
}

// --- Rosters ------------------------------------------------------------------------------------

void MirrorRepair::ask_roster() {
  part_ = nullptr;
  rosters_.ask(shard_, slot_of_shard_, kSlotsPerPart);
  after(kAnswerLimit, &MirrorRepair::ask_roster);
}

void MirrorRepair::take_roster(const std::shared_ptr<const DeadlineBatch>& batch) {
  const RosterPart& part = *batch->roster();
  if (!running() || part_ || part.shard != shard_ || part.first_slot != slot_of_shard_) return;
  timer_.cancel();
  part_ = batch;
  next_user_ = 0;
  changed_.clear();
  for (std::size_t i = 0; i < batch->size(); ++i)
    alive_.insert(hash_of(batch->at(i).uid));
  look_at_part();
}

void MirrorRepair::next_part() {
  const RosterPart& part = *part_->roster();
  slot_of_shard_ = part.next_slot;
  if (!part.more) {
    slot_of_shard_ = 0;
    ++shard_;
  }
  if (shard_ < rosters_.shards()) return ask_roster();
  part_ = nullptr;
  if (purpose_ == Purpose::kRefile) return finish();
  scan_owners();
}

/// The next few users of the part, but for those of whom there is newer news than it.
void MirrorRepair::look_at_part() {
  if (!has_room()) return after(kQueueWait, &MirrorRepair::look_at_part);
  if (next_user_ == part_->size()) return next_part();
  const auto step = std::make_shared<Step>();
  const std::size_t end = std::min(next_user_ + kUsersPerStep, part_->size());
  const MonoTime now = MonoClock::now();
  for (; next_user_ < end; ++next_user_) {
    const UserDeadline user = part_->at(next_user_);
    has_beyond_ = has_beyond_ || is_beyond(user, now);
    if (!changed_.contains(hash_of(user.uid)) && !queue_.holds(user.uid))
      step->users.push_back(user);
  }
  if (step->users.empty()) return look_at_part();
  users_ += step->users.size();
  if (purpose_ == Purpose::kRepair) return compare(step);
  refile(step->users);
}

void MirrorRepair::refile(const std::vector<UserDeadline>& users) {
  const MonoTime now = MonoClock::now();
  for (const UserDeadline& user : users) {
    if (is_beyond(user, now)) file_anew(user);
  }
  after(pace(users.size()), &MirrorRepair::look_at_part);
  pump_();
}

void MirrorRepair::compare(const std::shared_ptr<Step>& step) {
  const RingNames& names = scripts_.layout().names();
  const std::string deadlines = names.deadlines();
  const std::string owners = names.owners();
  step->asked = MonoClock::now();
  const auto ask = [&](std::string_view command, std::string_view key, std::size_t answer) {
    std::vector<std::string_view> words{command};
    if (!key.empty()) {
      words.push_back(key);
      for (const UserDeadline& user : step->users)
        words.push_back(user.uid);
    }
    return submit(words, [this, step, answer, part = part_](const RedisReply& reply) {
      step->replies[answer] = reply;
      if (answer + 1 == step->replies.size()) on_compared(*step);
    });
  };
  static_cast<void>(ask("TIME", {}, 0) && ask("HMGET", names.index, 1) &&
                    ask("HMGET", deadlines, 2) && ask("HMGET", owners, 3));
}

void MirrorRepair::on_compared(const Step& step) {
  const auto& [time, index, deadlines, owners] = step.replies;
  const std::size_t count = step.users.size();
  if (index.elements.size() != count || deadlines.elements.size() != count ||
      owners.elements.size() != count) {
    return give_up();
  }
  const auto took = std::chrono::ceil<milliseconds>(MonoClock::now() - step.asked);
  for (std::size_t i = 0; i < count; ++i) {
    const UserDeadline& user = step.users[i];
    const FiledUser filed{.slot = text_of(index.elements[i]),
                          .deadline = text_of(deadlines.elements[i]),
                          .owners = owners.elements[i].text};
    const ExpectedUser expected{
        .now = parse_redis_time(time).value_or(milliseconds{}),
        .remaining = std::chrono::ceil<milliseconds>(user.deadline - step.asked),
        .slack = kSlack + took,
        .refile_period = 2 * kRefilePeriod};
    if (changed_.contains(hash_of(user.uid)) ||
        is_filed_right(filed, expected, scripts_.layout(), slots_, scripts_.node())) {
      continue;
    }
    ++differences_;
    file_anew(user);
  }
  after(pace(count), &MirrorRepair::look_at_part);
  pump_();
}

/// Whoever does not fit into the queue is found by the next run.
void MirrorRepair::file_anew(const UserDeadline& user) {
  if (!queue_.move(user.uid, user.deadline, MonoClock::now())) wanted_ = true;
}

// --- Owners -------------------------------------------------------------------------------------

void MirrorRepair::scan_owners() {
  if (!has_room()) return after(kQueueWait, &MirrorRepair::scan_owners);
  const std::string owners = scripts_.layout().names().owners();
  static_cast<void>(
      submit(std::array<std::string_view, 5>{"HSCAN", owners, cursor_, "COUNT", kStepCount},
             [this](const RedisReply& page) { on_owners(page); }));
}

void MirrorRepair::on_owners(const RedisReply& page) {
  if (!is_scan_page(page)) return give_up();
  const std::vector<RedisReply>& pairs = page.elements[1].elements;
  std::vector<std::string> left_over;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string& uid = pairs[i].text;
    const std::string& owners = pairs[i + 1].text;
    if (!is_held_by(owners, scripts_.node().name)) continue;
    if (alive_.contains(hash_of(uid)) || queue_.holds(uid)) continue;
    if (is_held_by(owners, scripts_.node())) {
      take_out(uid);
    } else if (!options_.leaves_earlier_lives) {
      left_over.push_back(uid);
    }
  }
  cursor_ = page.elements[0].text;
  if (!left_over.empty()) return check_left_over(std::move(left_over));
  next_page();
}

/// A page may be longer than asked for: a small hash comes all at once.
void MirrorRepair::check_left_over(std::vector<std::string> uids) {
  const std::string deadlines = scripts_.layout().names().deadlines();
  std::vector<std::string_view> words{"HMGET", deadlines};
  words.insert(words.end(), uids.begin(), uids.end());
  const auto time = std::make_shared<milliseconds>();
  const bool asked =
      submit(std::array<std::string_view, 1>{"TIME"}, [time](const RedisReply& reply) {
        *time = parse_redis_time(reply).value_or(milliseconds{});
      });
  if (!asked) return;
  static_cast<void>(submit(words, [this, time, uids](const RedisReply& reply) {
    if (reply.elements.size() != uids.size()) return give_up();
    for (std::size_t i = 0; i < uids.size(); ++i) {
      if (alive_.contains(hash_of(uids[i]))) continue;  // came back just now
      const auto deadline = parse_unix_ms(reply.elements[i].text);
      if (deadline && *deadline > *time && *deadline <= *time + scripts_.layout().span()) {
        has_left_over_ = true;
      } else {
        take_out(uids[i]);
      }
    }
    next_page();
  }));
}

void MirrorRepair::take_out(const std::string& uid) {
  ++differences_;
  if (!queue_.remove(uid, EdgeReason::kTimeout, MonoClock::now())) wanted_ = true;
}

void MirrorRepair::next_page() {
  const bool is_last = cursor_ == kScanBegin;
  after(pace(kUsersPerStep), is_last ? &MirrorRepair::scan_slot : &MirrorRepair::scan_owners);
  pump_();
}

// --- Slots --------------------------------------------------------------------------------------

void MirrorRepair::scan_slot() {
  if (ring_slot_ == slots_.size()) {  // behind the answers of all that was asked
    static_cast<void>(
        submit(std::array<std::string_view, 1>{"PING"}, [this](const RedisReply&) { finish(); }));
    return;
  }
  static_cast<void>(submit(
      std::array<std::string_view, 5>{"SSCAN", slots_[ring_slot_], cursor_, "COUNT", kStepCount},
      [this](const RedisReply& page) { on_members(page); }));
}

/// A page may be longer than asked for: the members of a small set come all at once.
void MirrorRepair::on_members(const RedisReply& page) {
  if (!is_scan_page(page)) return give_up();
  const std::vector<RedisReply>& members = page.elements[1].elements;
  std::vector<std::string_view> uids;
  for (std::size_t i = 0; i < members.size(); ++i) {
    uids.push_back(members[i].text);
    if (uids.size() < kRingBatchMax && i + 1 < members.size()) continue;
    unfile(uids);
    if (!running()) return;
    uids.clear();
  }
  cursor_ = page.elements[0].text;
  if (cursor_ == kScanBegin) ++ring_slot_;
  after(pace(members.size()), &MirrorRepair::scan_slot);
}

void MirrorRepair::unfile(const std::vector<std::string_view>& uids) {
  const auto on_unfiled = [this](const RedisReply& reply) {
    differences_ += static_cast<std::uint64_t>(std::max<std::int64_t>(reply.integer, 0));
  };
  note_sent(call(client_, scripts_.unfile(slots_[ring_slot_], uids), in_this_run(on_unfiled)));
}

}  // namespace pulsewheel
