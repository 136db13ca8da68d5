#include "daemon/server/shard_core.h"

#include <algorithm>
#include <new>
#include <utility>

#include "daemon/base/check.h"

namespace pulsewheel {
namespace {

/// Offline users forgotten at one go, and the share of the retention between two goes.
constexpr std::size_t kForgottenPerRun = 1'000;
constexpr int kForgetRunsPerRetention = 16;

}  // namespace

ShardCore::ShardCore(const Options& options, MonoTime now, ShardHost& host,
                     TimerErrorSink& timer_errors)
    : options_(options),
      expiry_budget_(options.expiry_budget),
      host_(host),
      wheel_(options.clock.floor(now)),
      timers_(wheel_, options.clock, timer_errors),
      registry_(options.registry, wheel_, options.clock),
      outboxes_(options.shards),
      touches_(options.shards),
      retention_timer_("offline retention", [this](MonoTime t) { forget_offline_users(t); }),
      touch_timer_("touched sessions", [this](MonoTime) { collect_touches(); }) {
  PULSEWHEEL_CHECK(options.index < options.shards);
}

// --- One round ----------------------------------------------------------------------------------

bool ShardCore::has_work() const noexcept {
  return wheel_work_left_ || first_expired_ < kTickParts || input_drain_.running() ||
         !fences_asked_.empty() || !fences_read_.empty() || !ready_.empty() ||
         (!fence_.running() && !waiting_.empty()) || registry_.deadlines_changed();
}

void ShardCore::begin_round(MonoTime now) {
  began_ = now;
  answer_fences();
  note_delay();
  if (input_drain_.running() || fences_asked_.empty()) return;
  fences_running_.swap(fences_asked_);
  start_input_drain();
}

/// A round that began late: the process was stopped, or the machine is overloaded. Clients kept
/// sending meanwhile, and their packets are still in the sockets.
void ShardCore::note_delay() {
  const auto expected = std::exchange(expected_, std::nullopt);
  wakeup_delay_.reset();
  if (!expected) return;
  const Duration late = began_ - *expected;
  if (asleep_ && late >= Duration{0}) wakeup_delay_ = late;
  if (stalled_) return;
  if (late <= std::max(options_.clock.length(), kStallMin)) return;
  stalled_ = true;
  start_input_drain();
  host_.on_stall(late);
}

void ShardCore::start_input_drain() {
  const ShardHost::UnreadMax unread = host_.unread_max();
  input_drain_.start(unread.accepts, unread.handlers);
}

void ShardCore::on_poll(std::size_t handlers, bool ran_dry) {
  const bool was_running = input_drain_.running();
  input_drain_.on_poll(handlers, ran_dry);
  if (!was_running || input_drain_.running()) return;
  stalled_ = false;
  fences_read_.insert(fences_read_.end(), fences_running_.begin(), fences_running_.end());
  fences_running_.clear();
}

/// A round after the reading is over: the logins that were found have then left for their home
/// shards, which hear of the ends only from those who get these answers.
void ShardCore::answer_fences() {
  for (const ShardIndex shard : fences_read_)
    send_mail(shard, FenceAnswerMail{});
  fences_read_.clear();
}

bool ShardCore::expire() {
  if (stalled_) return false;
  HookList expired;
  wheel_work_left_ =
      !wheel_.advance(options_.clock.floor(began_), expiry_budget_ * kVisitsPerHandled, expired);
  sort_in(expired);
  if (first_expired_ == kTickParts) return false;
  for (std::size_t i = 0; i < expiry_budget_; ++i) {
    TimerHook* const hook = next_expired();
    if (hook == nullptr) break;
    dispatch(*hook);
  }
  return true;
}

void ShardCore::sort_in(HookList& expired) {
  const Duration tick = options_.clock.length();
  while (TimerHook* hook = expired.pop_front()) {
    std::size_t part = 0;
    if (hook->kind() == HookKind::kSession) {
      const MonoTime end = options_.clock.begin_of(hook->deadline());
      const Duration before_end = std::clamp(end - host_.deadline_of(*hook), Duration{1}, tick);
      part = static_cast<std::size_t>((tick - before_end) * kTickParts / tick);
    }
    expired_[part].push_back(*hook);
    first_expired_ = std::min(first_expired_, part);
  }
}

TimerHook* ShardCore::next_expired() noexcept {
  for (; first_expired_ < kTickParts; ++first_expired_) {
    if (TimerHook* hook = expired_[first_expired_].pop_front()) return hook;
  }
  return nullptr;
}

void ShardCore::dispatch(TimerHook& hook) {
  switch (hook.kind()) {
    case HookKind::kSession:
      return host_.on_session_due(hook, began_);
    case HookKind::kLinger:
      if (holding_) return held_.push_back(hook);
      return due_at(options_.clock.begin_of(hook.deadline())).lingering.push_back(hook);
    case HookKind::kTimer:
      return timers_.fire(hook, began_);
    case HookKind::kHold:
      return end_hold(hook);
    case HookKind::kTest:
      break;
  }
  PULSEWHEEL_CHECK(!"a hook of this kind on a shard's wheel");
}

/// Without memory for the news nothing has changed, and the next round tries again.
void ShardCore::end_hold(TimerHook& hook) {
  std::vector<SessionRef> live;
  try {
    const std::string_view uid = registry_.expire_hold(hook, began_, live);
    if (!uid.empty()) host_.on_hold_over(uid, began_);
  } catch (const std::bad_alloc&) {
    return;
  }
  tell_hold(live, std::nullopt);
}

ShardCore::Due& ShardCore::due_at(MonoTime deadline) noexcept {
  if (deadline <= fenced_until_) return ready_;
  return fence_.running() && deadline <= fence_.asked ? fenced_ : waiting_;
}

void ShardCore::finish_due(MonoTime now) {
  if (stalled_) return;
  if (!fence_.running() && !waiting_.empty()) raise_fence();
  for (std::size_t i = 0; i < expiry_budget_ && !ready_.empty(); ++i) {
    if (TimerHook* const hook = ready_.lingering.pop_front()) {
      registry_.expire_lingering(*hook, now, edges_);
    } else {
      const SessionEnd& end = ready_.silent[ready_.next_silent++];
      send_mail(end.user.shard, EndMail{end});
    }
  }
  ready_.clear_done();
}

void ShardCore::raise_fence() {
  fenced_.append(waiting_);
  fence_ = {.answers_missing = options_.shards, .asked = began_};
  host_.on_fence();
  for (ShardIndex shard = 0; shard < options_.shards; ++shard)
    send_mail(shard, FenceMail{options_.index});
}

void ShardCore::Due::append(Due& other) {
  lingering.splice(other.lingering);
  if (silent.empty()) {
    silent.swap(other.silent);
    std::swap(next_silent, other.next_silent);
    return;
  }
  silent.insert(silent.end(), other.silent.begin() + static_cast<std::ptrdiff_t>(other.next_silent),
                other.silent.end());
  other.next_silent = other.silent.size();
  other.clear_done();
}

void ShardCore::Due::clear_done() noexcept {
  if (next_silent < silent.size()) return;
  silent = {};
  next_silent = 0;
}

void ShardCore::deliver_own_mail(MonoTime now) {
  MailBatch& own = outboxes_[options_.index];
  while (!own.empty()) {
    MailBatch batch = std::exchange(own, {});
    deliver(batch, now);
  }
}

ShardCore::Next ShardCore::end_round() noexcept {
  if (registry_.offline_users() > 0 && !retention_timer_.armed()) {
    timers_.arm_after(retention_timer_, registry_.options().offline_retention, began_);
  }
  asleep_ = !has_work();
  if (!asleep_) {
    expected_ = began_;
    return {.at_once = true, .wakeup = std::nullopt};
  }
  const auto next = wheel_.next_wakeup();
  if (next) expected_ = std::max(began_, options_.clock.begin_of(*next));
  return {.at_once = false, .wakeup = next};
}

// --- Mail ---------------------------------------------------------------------------------------

void ShardCore::deliver(MailBatch& batch, MonoTime now) {
  for (Mail& mail : batch) {
    std::visit([this, now](auto& message) { on_mail(message, now); }, mail);
  }
}

void ShardCore::submit_login(const LoginSubmission& login) {
  const ShardIndex home =
      home_shard_of(login.request.uid, options_.registry.hash_seed, options_.shards);
  send_mail(home, LoginMail{std::string(login.request.uid), std::string(login.request.device),
                            login.request.session, login.terms});
}

void ShardCore::session_ended(const SessionEnd& end) {
  if (end.reason == CloseReason::kTimeout) return due_at(end.deadline).silent.push_back(end);
  send_mail(end.user.shard, EndMail{end});
}

void ShardCore::on_mail(LoginMail& mail, MonoTime now) {
  const LoginDecision decision = decide(mail, now);
  if (decision.taken_over) {
    send_mail(decision.taken_over->shard,
              DismissMail{*decision.taken_over, CloseReason::kTakenOver});
  }
  send_mail(mail.session.shard, LoginAnswerMail{mail.session, decision, mail.terms});
}

/// A registry that finds no memory has changed nothing: the login is refused, those who are in
/// stay.
LoginDecision ShardCore::decide(const LoginMail& mail, MonoTime now) {
  try {
    return registry_.login(
        {mail.uid, mail.device, mail.session, mail.terms.login_at, mail.terms.deadline()}, now,
        edges_);
  } catch (const std::bad_alloc&) {
    return {.verdict = LoginVerdict::kServerFull, .user = {}, .session_id = 0, .taken_over = {}};
  }
}

void ShardCore::on_mail(LoginAnswerMail& mail, MonoTime /*now*/) {
  if (host_.on_login_answer(mail)) return;
  if (mail.decision.verdict != LoginVerdict::kAccepted) return;
  // Closed while the home shard decided: the user must not stay online without a session.
  session_ended({mail.decision.user, mail.session, CloseReason::kPeerClosed, mail.terms.login_at,
                 mail.terms.deadline(), std::nullopt, mail.terms.silence_max()});
}

void ShardCore::on_mail(EndMail& mail, MonoTime now) {
  registry_.end_session(mail.end, now, edges_);
}

void ShardCore::on_mail(TouchMail& mail, MonoTime /*now*/) {
  for (const SessionTouch& touch : mail.touches)
    registry_.touch(touch);
}

void ShardCore::on_mail(DismissMail& mail, MonoTime /*now*/) {
  host_.on_dismissed(mail);
}

void ShardCore::on_mail(HoldMail& mail, MonoTime /*now*/) {
  host_.on_hold(mail);
}

void ShardCore::on_mail(FenceMail& mail, MonoTime /*now*/) {
  fences_asked_.push_back(mail.asker);
}

void ShardCore::on_mail(FenceAnswerMail& /*mail*/, MonoTime /*now*/) {
  if (!fence_.running() || --fence_.answers_missing > 0) return;
  fenced_until_ = fence_.asked;
  ready_.append(fenced_);
}

// --- Deadlines ----------------------------------------------------------------------------------

void ShardCore::note_touched(MonoTime now) noexcept {
  if (!touch_timer_.armed()) timers_.arm_after(touch_timer_, options_.clock.length(), now);
}

void ShardCore::collect_touches() {
  host_.on_touches_due();
  for (ShardIndex home = 0; home < options_.shards; ++home) {
    if (!touches_[home].empty()) send_mail(home, TouchMail{std::exchange(touches_[home], {})});
  }
}

DeadlineBatch ShardCore::take_deadlines() {
  DeadlineBatch batch;
  if (registry_.deadlines_changed()) registry_.take_deadlines(kDeadlinesPerRound, batch);
  return batch;
}

// --- Users --------------------------------------------------------------------------------------

std::optional<std::size_t> ShardCore::kick(std::string_view uid, MonoTime now,
                                           MonoTime last_packet) {
  std::vector<SessionRef> live;
  if (!registry_.kick(uid, now, edges_, live, last_packet)) return std::nullopt;
  for (const SessionRef& session : live)
    send_mail(session.shard, DismissMail{session, CloseReason::kKicked});
  return live.size();
}

PresenceRegistry::HoldVerdict ShardCore::hold(std::string_view uid, MonoTime until, MonoTime now) {
  std::vector<SessionRef> live;
  const auto verdict = registry_.hold(uid, until, now, live);
  if (!live.empty()) tell_hold(live, registry_.find(uid, now).hold->since);
  return verdict;
}

std::optional<Duration> ShardCore::release(std::string_view uid, MonoTime now) {
  std::vector<SessionRef> live;
  const auto held = registry_.release(uid, now, live);
  tell_hold(live, std::nullopt);
  return held;
}

void ShardCore::tell_hold(const std::vector<SessionRef>& sessions, std::optional<MonoTime> since) {
  for (const SessionRef& session : sessions)
    send_mail(session.shard, HoldMail{session, since});
}

bool ShardCore::report_offline(std::string_view uid, MonoTime now) {
  if (registry_.find(uid, now).state == PresenceState::kOnline) return false;
  edges_.push({.uid = uid,
               .at = now,
               .last_seen = kLastSeenUnknown,
               .due = now,
               .sessions = 0,
               .kind = EdgeKind::kOffline,
               .reason = EdgeReason::kTimeout});
  return true;
}

ShardCore::Restored ShardCore::restore(const UserImageBatch& users, MonoTime now) {
  Restored restored;
  for (const UserImage& user : users.users()) {
    if (!registry_.restore(user, users.sessions_of(user), now)) continue;
    ++(user.online() ? restored.online : restored.offline);
  }
  timers_.cancel(retention_timer_);
  forget_offline_users(now);
  return restored;
}

void ShardCore::change(const PresenceRegistry::Options& registry, std::size_t expiry_budget,
                       MonoTime now) {
  registry_.change(registry);
  expiry_budget_ = expiry_budget;
  timers_.cancel(retention_timer_);
  forget_offline_users(now);
}

void ShardCore::hold_lingering() {
  if (std::exchange(holding_, true)) return;
  PresenceRegistry::Options options = registry_.options();
  options.linger = true;
  registry_.change(options);
  for (Due* const due : {&ready_, &fenced_, &waiting_})
    held_.splice(due->lingering);
}

void ShardCore::release_silent(MonoTime now) {
  for (Due* const due : {&ready_, &fenced_, &waiting_}) {
    for (; due->next_silent < due->silent.size(); ++due->next_silent) {
      SessionEnd end = due->silent[due->next_silent];
      // A deadline that has passed would be final.
      end.deadline = std::max(end.deadline, now + options_.clock.length());
      send_mail(end.user.shard, EndMail{end});
    }
    due->clear_done();
  }
}

bool ShardCore::shut_users_down(MonoTime now) {
  return registry_.shutdown(now, expiry_budget_, edges_);
}

void ShardCore::forget_offline_users(MonoTime now) {
  const auto next = registry_.forget_offline(now, kForgottenPerRun);
  if (!next) return;
  const Duration pause =
      std::max(*next - now, registry_.options().offline_retention / kForgetRunsPerRetention);
  timers_.arm_after(retention_timer_, *next <= now ? Duration{0} : pause, now);
}

}  // namespace pulsewheel
