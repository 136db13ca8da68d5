#include <sysexits.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ostream>
#include <thread>

#include "daemon/ctl/commands.h"

namespace pulsewheel::ctl {
namespace {

using Clock = std::chrono::steady_clock;
using Pointer = Json::json_pointer;

/// Moves to the corner and clears what is below: nothing flickers.
constexpr const char* kHome = "\x1b[H\x1b[J";
constexpr const char* kClearScreen = "\x1b[2J";
constexpr std::size_t kBarHeight = 8;

/// One look at the daemon.
struct Sample {
  Json status;
  Json wheel;
  Clock::time_point at;
};

std::optional<Json> ask_for(CommandContext& context, const char* target, int& exit_code) {
  const Question question{
      .method = Question::Method::kGet, .target = target, .body = {}, .last_event_id = {}};
  return object_in(context, ask(context.access, question, context.timeout), exit_code);
}

std::optional<Sample> look(CommandContext& context, int& exit_code) {
  auto status = ask_for(context, "/v1/status", exit_code);
  if (!status) return std::nullopt;
  auto wheel = ask_for(context, "/v1/wheel", exit_code);
  if (!wheel) return std::nullopt;
  return Sample{std::move(*status), std::move(*wheel), Clock::now()};
}

std::string whole(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

std::string milliseconds(double seconds) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms", seconds * 1000);
  return text.data();
}

/// What a count has grown by in a second since the sample before.
double rate(const Sample& now, const std::optional<Sample>& before, const char* where) {
  if (!before) return 0;
  const double seconds = std::chrono::duration<double>(now.at - before->at).count();
  const double grown = number(now.status, Pointer(where)) - number(before->status, Pointer(where));
  return seconds > 0 ? std::max(grown, 0.0) / seconds : 0;
}

std::string totals(const Sample& now, const std::optional<Sample>& before) {
  const Json& s = now.status;
  const auto count = [&s](const char* where) { return whole(number(s, Pointer(where))); };
  const auto per_second = [&](const char* where) { return whole(rate(now, before, where)); };
  return in_table(
      {{"phase", member(s, "phase"), "version", member(s, "version"), "epoch", member(s, "epoch")},
       {"connections", count("/connections"), "online", count("/users/online"), "lingering",
        count("/users/lingering")},
       {"logins/s", per_second("/packets/logins"), "keepalives/s",
        per_second("/packets/keepalives"), "messages/s", per_second("/packets/messages")},
       {"online edges/s", per_second("/edges/online"), "offline edges/s",
        per_second("/edges/offline"), "last seq", count("/edges/last_seq")},
       {"lateness max", milliseconds(number(s, Pointer("/lateness_s/max"))), "loop delay max",
        milliseconds(number(s, Pointer("/loop_delay_s/max"))), "stalls", count("/stalls")}});
}

/// The slots of a level as bars, the highest `kBarHeight` lines high, and the hand below.
std::string bars(const Json& level) {
  std::vector<double> counts;
  for (const Json& count : level.value("slots", Json::array()))
    counts.push_back(count.is_number() ? count.get<double>() : 0);
  const double most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::string out = "slots of " + member(level, "ticks_per_slot") + " ticks, the fullest holds " +
                    whole(most) + "\n";
  for (std::size_t line = kBarHeight; line > 0 && most > 0; --line) {
    std::string row;
    for (const double count : counts) {
      const double height = count / most * kBarHeight;
      const bool is_bottom = line == 1 && count > 0;  // one hook is not nothing
      row += height > static_cast<double>(line) - 0.5 || is_bottom ? "# " : "  ";
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  const auto hand = static_cast<std::size_t>(std::max(number(level, Pointer("/hand")), 0.0));
  return out + std::string(2 * std::min(hand, counts.size()), ' ') + "^\n";
}

std::string wheel(const Json& answer) {
  std::string out;
  for (const Json& level : answer.value("levels", Json::array())) {
    const Json slots = level.value("slots", Json::array());
    const bool is_empty =
        std::all_of(slots.begin(), slots.end(), [](const Json& c) { return c == 0; });
    if (is_empty && !out.empty()) continue;  // the finest level is always shown
    out += "\n" + bars(level);
  }
  return out;
}

}  // namespace

int top(CommandContext& context, std::chrono::milliseconds interval,
        std::optional<std::uint64_t> count, bool on_terminal) {
  end_by_signal();
  std::optional<Sample> before;
  for (std::uint64_t shown = 0; !count || shown < *count; ++shown) {
    if (shown > 0) std::this_thread::sleep_for(interval);
    int exit_code = kExitOk;
    auto now = look(context, exit_code);
    if (!now) return exit_code;
    if (context.json) {
      context.out << dump({{"status", now->status}, {"wheel", now->wheel}}) << '\n';
    } else {
      if (on_terminal) context.out << (shown == 0 ? kClearScreen : "") << kHome;
      context.out << totals(*now, before) << wheel(now->wheel) << (on_terminal ? "" : "\n");
    }
    if (!context.out.flush()) return EX_IOERR;
    before = std::move(now);
  }
  return kExitOk;
}

}  // namespace pulsewheel::ctl
