// The part of Shard that is a home for users: mail in, decisions, mail out.
#include "daemon/server/shard_mail.h"

#include <utility>

#include "daemon/server/shard.h"

namespace pulsewheel {

void Shard::deliver(MailBatch batch) {
  static_cast<void>(context_.stamp());  // opens the round
  for (Mail& mail : batch) {
    std::visit([this](auto& message) { on_mail(message); }, mail);
  }
  update_user_gauges();
}

void Shard::deliver_own_mail() {
  MailBatch& own = outboxes_[options_.index];
  while (!own.empty())
    deliver(std::exchange(own, {}));
}

void Shard::send_mail(ShardIndex to, Mail mail) {
  outboxes_[to].push_back(std::move(mail));
}

void Shard::submit_login(const LoginSubmission& login) {
  const ShardIndex home =
      home_shard_of(login.request.uid, options_.registry.hash_seed, peers_.size());
  send_mail(home, LoginMail{std::string(login.request.uid), std::string(login.request.device),
                            login.request.session, login.terms});
}

void Shard::session_ended(const SessionEnd& end) {
  send_mail(end.user.shard, EndMail{end});
}

void Shard::on_mail(LoginMail& mail) {
  const LoginRequest request{mail.uid, mail.device, mail.session, mail.terms.login_at};
  const LoginDecision decision = registry_.login(request, MonoClock::now(), edges_);
  if (decision.taken_over) {
    send_mail(decision.taken_over->shard,
              DismissMail{*decision.taken_over, CloseReason::kTakenOver});
  }
  send_mail(mail.session.shard, LoginAnswerMail{mail.session, decision, mail.terms});
}

void Shard::on_mail(LoginAnswerMail& mail) {
  Session* const session = slab_.find(mail.session);
  if (session != nullptr && !session->closed()) {
    return session->on_login_decided(mail.decision, mail.terms);
  }
  if (mail.decision.verdict != LoginVerdict::kAccepted) return;
  // Closed while the home shard decided: the user must not stay online without a session.
  session_ended({mail.decision.user, mail.session, CloseReason::kPeerClosed, mail.terms.login_at,
                 mail.terms.login_at + std::chrono::milliseconds{mail.terms.timeout.timeout_ms}});
}

void Shard::on_mail(EndMail& mail) {
  const MonoTime now = MonoClock::now();
  registry_.end_session(mail.end, now, edges_);
  if (registry_.offline_users() > 0 && !retention_timer_.armed()) {
    timers_.arm_after(retention_timer_, options_.registry.offline_retention, now);
  }
}

void Shard::on_mail(DismissMail& mail) {
  if (Session* session = slab_.find(mail.session)) {
    session->go_away(mail.reason == CloseReason::kTakenOver ? proto::GoawayReason::kTakenOver
                                                            : proto::GoawayReason::kKicked,
                     mail.reason);
  }
}

void Shard::on_mail(FenceMail& mail) {
  fences_asked_.push_back(mail.home);
}

void Shard::on_mail(FenceAnswerMail& /*mail*/) {
  if (fence_.answers_missing > 0) --fence_.answers_missing;
}

UserView Shard::find_user(std::string_view uid) {
  return registry_.find(uid, MonoClock::now());
}

void Shard::update_user_gauges() {
  counters_.users_online.set(static_cast<std::int64_t>(registry_.online_users()));
  counters_.users_lingering.set(static_cast<std::int64_t>(registry_.lingering_users()));
  counters_.users_offline.set(static_cast<std::int64_t>(registry_.offline_users()));
}

}  // namespace pulsewheel
