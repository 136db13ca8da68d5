// SimulatorTest: a fixture that runs the real program and reads its report.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace pulsewheel::sim {

class SimulatorTest : public testing::Test {
 protected:
  struct Outcome {
    int exit_code = -1;
    nlohmann::json report;
  };

  /// `program` is the path of pulsewheel-sim.
  explicit SimulatorTest(std::string program) : program_(std::move(program)) {
    std::string name = std::filesystem::temp_directory_path() / "pulsewheel-sim-test-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~SimulatorTest() override { std::filesystem::remove_all(folder_); }

  /// Runs the program to its end, with these flags (separated by spaces), against `daemon`, which
  /// it starts itself; empty: the flags name one.
  Outcome simulate(const std::string& daemon, const std::string& flags) {
    std::vector<std::string> words{program_, "--report", file("report.json")};
    if (!daemon.empty()) words.insert(words.end(), {"--spawn", daemon});
    std::istringstream rest(flags);
    words.insert(words.end(), std::istream_iterator<std::string>(rest), {});
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    Outcome outcome;
    int status = 0;
    ::waitpid(child, &status, 0);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (std::filesystem::exists(file("report.json"))) {
      outcome.report = nlohmann::json::parse(std::ifstream(file("report.json")));
    }
    return outcome;
  }

  /// A path in a folder that is this test's own.
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

 private:
  std::string program_;
  std::filesystem::path folder_;
};

}  // namespace pulsewheel::sim
