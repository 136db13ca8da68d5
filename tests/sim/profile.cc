#include "tests/sim/profile.h"

#include <algorithm>
#include <array>

namespace pulsewheel::nodesim {
namespace {

constexpr Span kNone{};

Profile calm() {
  Profile p;
  p.name = "calm";
  p.about = "no fault and no latency: every edge falls on its tick exactly";
  p.round_latency = p.handler_cost = p.mail_delay = kNone;
  p.lateness_max = Duration{0};
  return p;
}

Profile single() {
  Profile p = calm();
  p.name = "single";
  p.about = "one shard, no latency: whatever a shard says to itself";
  p.shards = 1;
  p.kick_every = seconds{20};
  p.hold_every = seconds{2};
  return p;
}

Profile lossy() {
  Profile p;
  p.name = "lossy";
  p.about = "lost packets, half-open connections, resets";
  p.shards = 3;
  p.lost = 50;
  p.habits.half_open = 30;
  p.habits.reset = 15;
  p.habits.silence = 20;
  p.lateness_max = milliseconds{50};
  return p;
}

Profile stalls() {
  Profile p;
  p.name = "stalls";
  p.about = "a shard, or the whole node, does not run for 0.3 to 60 s";
  p.shards = 4;
  p.lost = 10;
  p.habits.half_open = 20;
  p.habits.fin = 20;
  p.hold_every = seconds{1};
  p.stall_every = seconds{40};
  p.whole_node_stalls = 300;
  p.stalls_inside_round = 200;
  p.lateness_max = seconds{1};
  return p;
}

Profile hiccups() {
  Profile p;
  p.name = "hiccups";
  p.about = "shards wait for a processor often, for less than what counts as a stall";
  p.track_deadlines = true;
  p.shards = 2;
  p.handlers_max = 2;
  p.near_deadline = 200;
  p.stall_every = seconds{2};
  p.stall = {milliseconds{50}, milliseconds{990}};
  p.whole_node_stalls = 200;
  p.lateness_max = milliseconds{500};
  return p;
}

Profile storms() {
  Profile p;
  p.name = "storms";
  p.about = "all connections are cut at once and come back without jitter";
  p.shards = 4;
  p.users = 2'000;
  p.storm_every = minutes{3};
  p.stall_every = minutes{10};
  p.stall = {milliseconds{300}, seconds{5}};
  p.whole_node_stalls = 500;
  p.lateness_max = seconds{1};
  return p;
}

Profile takeovers() {
  Profile p;
  p.name = "takeovers";
  p.about = "labelled devices that move and race; an operator who kicks";
  p.track_deadlines = true;
  p.shards = 8;
  p.users = 500;
  p.labelled = 900;
  p.habits.keepalive = 500;
  p.habits.move = 200;
  p.habits.race = 150;
  p.habits.fin = 60;
  p.habits.logout = 40;
  p.impatient = 200;
  p.kick_every = seconds{2};
  p.hold_every = milliseconds{500};
  p.mail_delay = {microseconds{1}, milliseconds{5}};
  p.lateness_max = milliseconds{300};
  return p;
}

Profile tiny() {
  Profile p;
  p.name = "tiny";
  p.about = "budgets of one: every loop stops in the middle";
  p.shards = 2;
  p.users = 300;
  p.accept_burst = 1;
  p.handlers_max = 1;
  p.expiry_budget = 1;
  p.round_latency = {microseconds{1}, microseconds{50}};
  p.habits.fin = 30;
  p.habits.half_open = 20;
  p.habits.race = 20;
  p.kick_every = seconds{10};
  p.stall_every = minutes{2};
  p.stall = {milliseconds{300}, seconds{40}};
  p.whole_node_stalls = 500;
  p.lateness_max = seconds{2};
  return p;
}

Profile fine_ticks() {
  Profile p;
  p.name = "fine";
  p.about = "ticks of 10 ms, timeouts of one to ten seconds, clients on the edge";
  p.track_deadlines = true;
  p.shards = 3;
  p.users = 500;
  p.tick = milliseconds{10};
  p.timeouts = {seconds{5}, seconds{1}, seconds{10}};
  p.near_deadline = 200;
  p.network_delay = {milliseconds{0}, milliseconds{15}};
  p.away = {milliseconds{1}, seconds{15}};
  p.habits.fin = 60;
  p.lateness_max = milliseconds{50};
  return p;
}

Profile no_linger() {
  Profile p;
  p.name = "no-linger";
  p.about = "a closed connection is offline at once";
  p.track_deadlines = true;
  p.shards = 3;
  p.linger = false;
  p.habits.fin = 40;
  p.habits.reset = 20;
  p.habits.half_open = 20;
  p.kick_every = seconds{10};
  p.hold_every = seconds{1};
  p.stall_every = minutes{5};
  p.stall = {milliseconds{300}, seconds{40}};
  p.lateness_max = milliseconds{500};
  return p;
}

Profile reloads() {
  Profile p;
  p.name = "reloads";
  p.about = "other timeouts every few seconds, for sessions that are logged in too";
  p.track_deadlines = true;
  p.shards = 3;
  p.users = 500;
  p.reload_every = seconds{8};
  p.hold_every = milliseconds{500};
  p.near_deadline = 60;
  p.impatient = 60;
  p.lateness_max = milliseconds{50};
  return p;
}

Profile restarts() {
  Profile p;
  p.name = "restarts";
  p.about = "a crash or a clean stop every minute or two";
  p.shards = 4;
  p.users = 500;
  p.restart_every = seconds{90};
  p.hold_every = seconds{1};
  p.kick_every = seconds{30};
  p.retention = minutes{1};
  p.offline_users_max = 20;
  p.lateness_max = milliseconds{100};
  return p;
}

Profile everything() {
  Profile p;
  p.name = "everything";
  p.about = "all of it at once, on small budgets";
  p.track_deadlines = true;
  p.shards = 5;
  p.users = 1'000;
  p.handlers_max = 8;
  p.accept_burst = 2;
  p.expiry_budget = 8;
  p.lost = 30;
  p.habits = {700, 50, 20, 40, 20, 30, 30, 60, 30};
  p.near_deadline = 60;
  p.impatient = 60;
  p.mail_delay = {microseconds{1}, milliseconds{1}};
  p.retention = minutes{2};
  p.kick_every = seconds{10};
  p.hold_every = milliseconds{500};
  p.storm_every = minutes{15};
  p.reload_every = minutes{2};
  p.restart_every = minutes{15};
  p.stall_every = minutes{1};
  p.whole_node_stalls = 200;
  p.stalls_inside_round = 300;
  p.lateness_max = seconds{2};
  return p;
}

}  // namespace

Duration Timeouts::of_wish(std::uint32_t wish_ms) const {
  if (wish_ms == 0) return standard;
  const milliseconds wished{(3 * std::int64_t{wish_ms} + 1) / 2};
  return std::clamp<Duration>(wished, min, max);
}

std::span<const Profile> profiles() noexcept {
  static const std::array kProfiles{calm(),    single(),    lossy(),     stalls(),     hiccups(),
                                    storms(),  takeovers(), tiny(),      fine_ticks(), no_linger(),
                                    reloads(), restarts(),  everything()};
  return kProfiles;
}

const Profile* find_profile(std::string_view name) noexcept {
  const auto all = profiles();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace pulsewheel::nodesim
