#include "tests/client_sim/program.h"

#include <atomic>
#include <csignal>
#include <exception>
#include <iostream>

#include "tests/client_sim/connection.h"
#include "tests/client_sim/options.h"

namespace pulsewheel::sim {
namespace {

std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // it is set by a signal's handler

void on_interrupt(int) {
  was_interrupted.store(true, std::memory_order_relaxed);
}

int fail(std::string_view program, const std::exception& error, int exit_code) {
  std::cerr << program << ": " << error.what() << '\n';
  return exit_code;
}

}  // namespace

int run_program(std::string_view name, const std::function<int()>& body) {
  try {
    return body();
  } catch (const UsageError& error) {
    return fail(name, error, kExitUsage);
  } catch (const Unavailable& error) {
    return fail(name, error, kExitUnavailable);
  } catch (const std::exception& error) {
    return fail(name, error, kExitSystem);
  }
}

void catch_interrupts() noexcept {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool interrupted() noexcept {
  return was_interrupted.load(std::memory_order_relaxed);
}

}  // namespace pulsewheel::sim
