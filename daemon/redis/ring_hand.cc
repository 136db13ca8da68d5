#include "daemon/redis/ring_hand.h"

#include <algorithm>
#include <utility>

#include <boost/system/error_code.hpp>

#include "daemon/base/log.h"

namespace pulsewheel {

using std::chrono::milliseconds;

void RingHand::on_claim(const RingClaim& claim, MonoTime now) noexcept {
  constexpr milliseconds kSecond{1'000};
  pause_ = kPauseMin;
  due_ = claim.work_left ? now : now + kSecond - claim.now % kSecond + kMargin;
}

void RingHand::on_failure(MonoTime now) noexcept {
  due_ = now + pause_;
  pause_ = std::min(pause_ * 2, kPauseMax);
}

RingPoller::RingPoller(boost::asio::io_context& io, RedisClient& client, const RingScripts& scripts,
                       std::function<void(std::vector<std::string>)> on_claimed)
    : client_(client),
      scripts_(scripts),
      on_claimed_(std::move(on_claimed)),
      hand_(MonoTime{}),
      timer_(io) {}

void RingPoller::start() {
  if (running_) return;
  running_ = true;
  hand_ = RingHand(MonoClock::now());
  if (!in_flight_) claim();
}

void RingPoller::stop() {
  running_ = false;
  timer_.cancel();
}

void RingPoller::wait() {
  timer_.expires_at(hand_.due());
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && running_) claim();
  });
}

void RingPoller::claim() {
  const auto refused =
      call(client_, scripts_.claim(),
           [this, alive = std::weak_ptr(alive_)](std::error_code ec, const RedisReply& reply) {
             if (!alive.expired()) on_answer(ec, reply);
           });
  in_flight_ = !refused;
  if (refused) on_answer(refused, {});
}

void RingPoller::on_answer(std::error_code ec, const RedisReply& reply) {
  in_flight_ = false;
  const MonoTime now = MonoClock::now();
  auto claim = ec ? std::nullopt : RingClaim::parse(reply);
  if (claim) {
    counters_.claims.add();
    counters_.claimed_users.add(claim->uids.size());
    counters_.refiled_users.add(claim->refiled);
    if (claim->late > milliseconds{0}) counters_.lateness.observe(claim->late);
    hand_.on_claim(*claim, now);
  } else {
    counters_.failures.add();
    hand_.on_failure(now);
    if (!ec) log::warn("redis_hand", "the ring's hand was not moved: {}", reply.text);
  }
  if (running_) wait();
  if (claim && !claim->uids.empty()) on_claimed_(std::move(claim->uids));
}

}  // namespace pulsewheel
