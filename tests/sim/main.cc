// node_sim: long runs of the simulation, and replaying one seed. See simulation.h.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "tests/sim/simulation.h"

namespace pulsewheel::nodesim {
namespace {

constexpr int kExitFine = 0;
constexpr int kExitViolation = 1;
constexpr int kExitUsage = 64;
/// A simulation of one profile and seed takes this many steps; then comes the next one.
constexpr std::uint64_t kStepsPerSeed = 2'000'000;
constexpr std::uint64_t kStepsAtOnce = 100'000;
constexpr auto kProgressInterval = std::chrono::seconds{5};

struct Settings {
  std::uint64_t steps = 1'000'000;  // in all
  std::uint64_t seed = 1;
  std::string profile;  // empty: all in turn
  std::string sabotage = "none";
};

class Progress {
 public:
  void show(const Simulation& simulation, const Profile& profile, std::uint64_t seed,
            std::uint64_t done, std::uint64_t steps) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kProgressInterval) return;
    last_ = now;
    std::cout << "node_sim: " << done << " of " << steps << " steps; " << profile.name << ", seed "
              << seed << ", "
              << std::chrono::duration_cast<seconds>(simulation.virtual_time()).count()
              << " s of virtual time" << std::endl;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void show_result(const Simulation& simulation, const Profile& profile, std::uint64_t seed) {
  const Tally& t = simulation.tally();
  const auto offline = [&t](EdgeReason reason) {
    return t.offline[static_cast<std::size_t>(reason)];
  };
  std::cout << profile.name << ", seed " << seed << ": " << t.steps << " steps, "
            << std::chrono::duration_cast<minutes>(simulation.virtual_time()).count()
            << " min; online " << t.online << ", offline: timeout " << offline(EdgeReason::kTimeout)
            << ", logout " << offline(EdgeReason::kLogout) << ", disconnect "
            << offline(EdgeReason::kDisconnect) << ", holds " << t.holds << ", kicked "
            << offline(EdgeReason::kKicked) << ", shutdown " << offline(EdgeReason::kShutdown)
            << "; takeovers " << t.takeovers << ", settings " << t.settings << ", deadlines "
            << t.deadlines << ", refused " << t.refused << ", reprieves " << t.reprieves
            << ", fences " << t.fences << ", stalls " << t.stalls << ", crashes " << t.crashes
            << ", stops " << t.clean_stops << ", checks " << t.checks_at_rest << ", latest "
            << std::chrono::duration_cast<microseconds>(simulation.worst_lateness()).count()
            << " us" << std::endl;
}

/// One profile and seed from the beginning to the end.
void run_one(const Profile& profile, std::uint64_t seed, Sabotage sabotage, std::uint64_t steps,
             std::uint64_t done, std::uint64_t all, Progress& progress) {
  Simulation simulation(profile, seed, sabotage);
  for (std::uint64_t left = steps; left > 0;) {
    const std::uint64_t now = std::min(left, kStepsAtOnce);
    simulation.run(now);
    left -= now;
    progress.show(simulation, profile, seed, done + steps - left, all);
  }
  simulation.settle();
  show_result(simulation, profile, seed);
}

void run_all(const Settings& settings) {
  std::vector<const Profile*> chosen;
  for (const Profile& profile : profiles()) {
    if (settings.profile.empty() || profile.name == settings.profile) chosen.push_back(&profile);
  }
  const Sabotage sabotage = *sabotage_of(settings.sabotage);
  const bool one = !settings.profile.empty();
  const std::uint64_t portion =
      one ? settings.steps : std::min(kStepsPerSeed, settings.steps / chosen.size() + 1);
  Progress progress;
  std::uint64_t done = 0;
  for (std::uint64_t run = 0; done < settings.steps; ++run) {
    const std::uint64_t steps = std::min(portion, settings.steps - done);
    run_one(*chosen[run % chosen.size()], settings.seed + run / chosen.size(), sabotage, steps,
            done, settings.steps, progress);
    done += steps;
  }
  std::cout << "node_sim: " << done << " steps, no violation" << std::endl;
}

std::string known_profiles() {
  std::string text = "Profiles:";
  for (const Profile& profile : profiles())
    text += "\n  " + std::string(profile.name) + ": " + std::string(profile.about);
  return text;
}

void add_flags(CLI::App& app, Settings& settings) {
  app.footer(known_profiles());
  app.add_option("--steps", settings.steps, "events to simulate, over all profiles and seeds")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}))
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "the first seed")->capture_default_str();
  app.add_option("--profile", settings.profile, "only this profile, with one seed")
      ->check([](const std::string& name) {
        return find_profile(name) != nullptr ? std::string() : "no profile \"" + name + "\"";
      });
  app.add_option("--sabotage", settings.sabotage, "break this rule, to see it noticed")
      ->check([](const std::string& name) {
        if (sabotage_of(name)) return std::string();
        std::string known = "no rule \"" + name + "\"; one of";
        for (const SabotageName& s : kSabotageNames)
          known += " " + std::string(s.name);
        return known;
      })
      ->capture_default_str();
}

int run(int argc, char** argv) {
  CLI::App app("Simulates a whole node in virtual time, and checks each step.", "node_sim");
  Settings settings;
  add_flags(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitFine : kExitUsage;
  }
  try {
    run_all(settings);
    return kExitFine;
  } catch (const Violation& violation) {
    std::cerr << "node_sim: " << violation.what() << '\n';
    return kExitViolation;
  }
}

}  // namespace
}  // namespace pulsewheel::nodesim

int main(int argc, char** argv) {
  return pulsewheel::nodesim::run(argc, argv);
}
