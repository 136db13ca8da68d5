// Followers: clients of /v1/events that read when the test wants them to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace pulsewheel::test {

/// One Server-Sent Event.
struct SseEvent {
  std::string id;
  std::string name;     // "message" where none is given
  nlohmann::json data;  // null for one that has only an id
};

/// What one follower has read so far.
struct Follower {
  int fd = -1;
  unsigned status = 0;                // of the answer; 0: its head is not complete
  bool ended = false;                 // the daemon closed the connection
  std::vector<std::uint64_t> seqs{};  // of the edges and gaps that came, by their ids
  std::size_t resyncs = 0;
  std::string last_id{};
  std::vector<SseEvent> events{};  // all that has data, if the test keeps it
  std::size_t comments = 0;
  std::string input{};  // the beginning of an event
};

/// Nothing is read between calls, so whoever is left out of them is as slow as can be. Text that is
/// no stream of events throws.
class Followers {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    bool keep_events = true;
    int receive_buffer_bytes = 0;  // 0: the kernel's choice
  };
  explicit Followers(std::uint16_t http_port) : Followers(http_port, Options{}) {}
  Followers(std::uint16_t http_port, Options options);
  ~Followers();
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  /// Connects one more and asks for /v1/events with this query ("?uid=x") and these header fields.
  /// Returns its number.
  std::size_t add(const std::string& query = {}, const std::string& fields = {});

  /// Reads what comes to the followers from `first` to `last` (not included) until `done`, asked
  /// after each look; false at the limit.
  [[nodiscard]] bool read_until(std::size_t first, std::size_t last,
                                const std::function<bool()>& done,
                                Clock::duration limit = std::chrono::seconds{60});
  /// The same for one follower.
  [[nodiscard]] bool read_until(std::size_t i, const std::function<bool(const Follower&)>& done);
  /// Reads until follower `i` has `count` events, and returns event `count - 1`. Throws when it
  /// does not come.
  const SseEvent& event(std::size_t i, std::size_t count);

  [[nodiscard]] const Follower& at(std::size_t i) const { return followers_[i]; }
  [[nodiscard]] std::size_t size() const { return followers_.size(); }
  void close(std::size_t i);

 private:
  void read(Follower& follower);
  void take_head(Follower& follower);
  void take_events(Follower& follower);
  void take_event(Follower& follower, std::string_view block) const;

  const std::uint16_t http_port_;
  const Options options_;
  std::vector<Follower> followers_;
};

}  // namespace pulsewheel::test
