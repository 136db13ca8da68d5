// A shard under new options, and on its way out.
#include "daemon/server/shard.h"

#include <algorithm>
#include <chrono>

namespace pulsewheel {
namespace {

/// How often a departing shard sends a share of its sessions away.
constexpr Duration kDepartureStep = std::chrono::milliseconds{50};

}  // namespace

// --- Change -------------------------------------------------------------------------------------

void Shard::change(const ShardOptions& options) {
  const bool other_timeouts = options.session.timeouts != options_.session.timeouts;
  const bool other_interval = options.statistics_interval != options_.statistics_interval;
  options_.session = options.session;
  options_.accept_burst = options.accept_burst;
  options_.handlers_max = options.handlers_max;
  options_.statistics_interval = options.statistics_interval;
  core_.change(options.registry, options.expiry_budget, MonoClock::now());
  for (auto& acceptor : acceptors_)
    acceptor->set_burst(options_.accept_burst);
  if (other_interval) {
    core_.timers().cancel(statistics_timer_);
    arm_statistics();
  }
  if (other_timeouts) {
    next_renegotiated_ = 0;
    renegotiate_some();
  }
}

/// Slots that are taken meanwhile need no visit: who logs in gets the timeouts of now.
void Shard::renegotiate_some() {
  for (std::size_t left = kRenegotiatedPerStep; left > 0 && next_renegotiated_ < slab_.slots();) {
    Session* const session = slab_.at(next_renegotiated_++);
    if (session == nullptr) continue;
    session->apply_timeouts();
    --left;
  }
  if (next_renegotiated_ == slab_.slots()) return;
  renegotiation_timer_.expires_after(kRenegotiationStep);
  renegotiation_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) renegotiate_some();
  });
}

// --- Leaving ------------------------------------------------------------------------------------

void Shard::drain(Duration window) {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  const MonoTime end = MonoClock::now() + window;
  departure_.end = departure_.running ? std::min(departure_.end, end) : end;
  departure_.running = true;
  send_some_away();
}

void Shard::send_some_away() {
  if (slab_.size() == 0) return observer_.on_drained(options_.index);
  const MonoTime now = MonoClock::now();
  const auto steps = std::max<Duration::rep>(1, (departure_.end - now) / kDepartureStep);
  const auto sessions_left = std::size_t{slab_.slots() - departure_.next_slot};
  std::size_t share =
      (sessions_left + static_cast<std::size_t>(steps) - 1) / static_cast<std::size_t>(steps);
  for (; share > 0 && departure_.next_slot < slab_.slots(); --share, ++departure_.next_slot) {
    if (Session* session = slab_.at(departure_.next_slot)) {
      session->go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    }
  }
  departure_timer_.expires_after(kDepartureStep);
  departure_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) send_some_away();
  });
}

void Shard::hold_users() {
  core_.hold_lingering();
}

void Shard::end_sessions() {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
    if (Session* session = slab_.at(slot)) {
      session->go_away(proto::GoawayReason::kDraining, CloseReason::kDrained);
    }
  }
  const MonoTime now = MonoClock::now();
  core_.release_silent(now);
  core_.deliver_own_mail(now);
  flush_mail();
}

void Shard::end_all_sessions() {
  for (auto& acceptor : acceptors_)
    acceptor->close();
  departure_timer_.cancel();
  close_timer_.cancel();
  renegotiation_timer_.cancel();
  wakeup_timer_.cancel();
  closing_.clear();
  for (std::uint32_t slot = 0; slot < slab_.slots(); ++slot) {
    if (Session* session = slab_.at(slot)) session->abandon();
  }
  while (io_.poll_one() != 0) {  // the cancelled operations let go of their sessions
  }
  hand_on_edges();  // of mail that came last
}

}  // namespace pulsewheel
