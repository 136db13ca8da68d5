// Strangers: connections that are no clients of the run, and behave badly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/time.h"
#include "tests/client_sim/connection.h"
#include "tests/client_sim/random.h"
#include "tests/client_sim/soak/faults.h"

namespace pulsewheel::sim {

/// One fault's connections. Non-blocking; belongs to one thread.
class Strangers {
 public:
  struct Setup {
    const Endpoint* target = nullptr;  // outlives this
    FaultKind kind = FaultKind::kFlood;
    std::uint32_t amount = 0;
    std::uint64_t seed = 0;
    std::uint32_t serial = 0;  // of the fault: part of the uids of those who log in
  };

  /// Connects them all. One that cannot be opened is left out.
  Strangers(const Setup& setup, MonoTime now);
  /// Resets what is still open.
  ~Strangers();
  Strangers(Strangers&& other) noexcept = default;
  Strangers& operator=(Strangers&& other) noexcept = default;

  /// Reads, finds out who was closed by the daemon, and sends what is due.
  void step(MonoTime now);

  [[nodiscard]] std::size_t open() const noexcept { return open_.size(); }
  /// The daemon should have closed all of them long before: its login timeout is over.
  [[nodiscard]] bool is_overdue(MonoTime now) const noexcept {
    return !open_.empty() && now >= began_ + kStayMax;
  }
  /// Whether they can tell that the daemon closed them. Not the deaf: what it sent before its FIN
  /// does not reach them, and neither does the FIN.
  [[nodiscard]] bool notice_a_close() const noexcept { return setup_.kind != FaultKind::kDeaf; }

 private:
  /// The login timeout of a soak's daemon is 2 s; the rest is for freezes, one behind the other,
  /// and a busy machine.
  static constexpr std::chrono::seconds kStayMax{20};

  struct Connection {
    int descriptor = -1;
    std::vector<std::byte> output;  // what it says
    std::size_t sent = 0;
  };

  [[nodiscard]] std::vector<std::byte> words_of(std::uint32_t number);
  [[nodiscard]] bool talk(Connection& connection) const noexcept;
  [[nodiscard]] bool listen(const Connection& connection) const noexcept;

  Setup setup_;
  Random random_;
  MonoTime began_;
  MonoTime next_step_;
  std::vector<Connection> open_;
};

}  // namespace pulsewheel::sim
