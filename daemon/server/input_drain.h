// InputDrain: has a shard read all that had arrived when the question was asked?
#pragma once

#include <cstddef>

namespace pulsewheel {

/// Two steps, spread over loop rounds: the accept queues are emptied once (whoever waits there may
/// be coming back), then the ready sockets are read until none is ready. Both are bounded, since
/// new input may come as fast as it is read: what was there at the start is seen within the
/// bounds. Pure; told what each round did.
class InputDrain {
 public:
  /// `accepts_max`: connections that the accept queues can hold. `handlers_max`: handlers that one
  /// event on every descriptor makes.
  void start(std::size_t accepts_max, std::size_t handlers_max) noexcept {
    running_ = true;
    accepted_all_ = false;
    accepts_left_ = accepts_max;
    handlers_left_ = handlers_max;
  }

  /// An accept burst took at most `accepts`; `emptied`: it found the queues empty at the end.
  void on_accepts(std::size_t accepts, bool emptied) noexcept {
    accepts_left_ -= accepts < accepts_left_ ? accepts : accepts_left_;
    accepted_all_ = accepted_all_ || emptied || accepts_left_ == 0;
  }

  /// A poll pass ran `handlers`; `ran_dry`: nothing was ready at the end.
  void on_poll(std::size_t handlers, bool ran_dry) noexcept {
    if (!running_ || !accepted_all_) return;
    handlers_left_ -= handlers < handlers_left_ ? handlers : handlers_left_;
    if (ran_dry || handlers_left_ == 0) running_ = false;
  }

  [[nodiscard]] bool running() const noexcept { return running_; }
  /// Whether the accept queues still have to be emptied.
  [[nodiscard]] bool accepting() const noexcept { return running_ && !accepted_all_; }

 private:
  bool running_ = false;
  bool accepted_all_ = false;
  std::size_t accepts_left_ = 0;
  std::size_t handlers_left_ = 0;
};

}  // namespace pulsewheel
