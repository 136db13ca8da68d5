// The daemon's own log, for people: lines of text or JSON that never hold up whoever writes them.
//
//     log::warn("accept", "cannot accept: {}", message);
//     log::info("login", {{"uid", log::Uid{uid}}, {"shard", 3}}, "took over {} sessions", count);
//
// The first argument is the line's kind: a literal that names what the line is about, by which
// lines are rate-limited. A uid is never put into a line raw: log::Uid percent-encodes it, as a
// field or as an argument. Never log a secret.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/base/percent.h"
#include "daemon/base/time.h"

namespace pulsewheel::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };
enum class Format : std::uint8_t { kHuman, kJson };

[[nodiscard]] std::string_view to_string(Level level) noexcept;  // "debug", "info", ...

struct Options {
  Level level = Level::kInfo;
  Format format = Format::kHuman;
  std::string destination = "stderr";  // "stderr", "stdout", or the path of a file
  /// Of one kind; more are counted and told in one line. 0: no limit.
  std::uint32_t lines_per_second_max = 5;
  /// Lines waiting for a slow destination; then the oldest is dropped. With rate-limited kinds this
  /// is minutes of trouble.
  std::size_t queue_lines_max = 1024;
};

/// What a line is about. Made from string literals only, so it is never copied and its hash costs
/// nothing at run time.
class Kind {
 public:
  // Implicit, so that a call can just name the kind. NOLINTNEXTLINE(google-explicit-constructor)
  consteval Kind(const char* name) : name_(name), hash_(hash_of(name)) {}
  /// A kind without a rate limit: for what is said once, because an operator asked for it.
  [[nodiscard]] static consteval Kind unlimited(const char* name) {
    Kind kind(name);
    kind.limited_ = false;
    return kind;
  }

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] bool limited() const noexcept { return limited_; }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }  // not 0

 private:
  /// FNV-1a, with 0 kept free.
  static consteval std::uint64_t hash_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : name)
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash == 0 ? 1 : hash;
  }

  const char* name_;
  std::uint64_t hash_;
  bool limited_ = true;
};

/// A uid (or anything else from a peer that names something), to be percent-encoded.
struct Uid {
  std::string_view bytes;
};

/// key=value in a human line, "key":value in a JSON one. The key is a literal of [a-z0-9_]; the
/// value needs to live for the call only. Any bytes are fine in a string.
class Field {
 public:
  using Value = std::variant<std::string_view, Uid, std::int64_t, std::uint64_t, double, bool>;

  Field(const char* key, std::string_view value) : key_(key), value_(value) {}
  Field(const char* key, const char* value) : key_(key), value_(std::string_view(value)) {}
  Field(const char* key, const std::string& value) : key_(key), value_(std::string_view(value)) {}
  Field(const char* key, Uid value) : key_(key), value_(value) {}
  Field(const char* key, bool value) : key_(key), value_(value) {}
  Field(const char* key, std::signed_integral auto value)
      : key_(key), value_(std::int64_t{value}) {}
  Field(const char* key, std::unsigned_integral auto value)
      : key_(key), value_(std::uint64_t{value}) {}
  Field(const char* key, std::floating_point auto value)
      : key_(key), value_(static_cast<double>(value)) {}

  [[nodiscard]] const char* key() const noexcept { return key_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  const char* key_;
  Value value_;
};
using Fields = std::initializer_list<Field>;

struct Stats {
  std::uint64_t written = 0;     // lines
  std::uint64_t overrun = 0;     // lines dropped because the destination was too slow
  std::uint64_t suppressed = 0;  // lines kept back by the rate limit
  std::uint64_t errors = 0;      // failed attempts to open or write
};

/// Formats on the caller's thread, writes on one of its own ("pw-log"), through spdlog's formatter.
/// All but start_thread() and stop() may be called on any thread, shards included: no lock, no
/// system call but a futex wake when the log's thread sleeps. A line is one line whatever is in it:
/// control bytes are escaped, and everything but printable ASCII in human lines; JSON lines are
/// valid UTF-8. A message is cut after kMessageBytesMax bytes.
class Logger {
 public:
  static constexpr std::size_t kMessageBytesMax = 1024;

  /// Opens and starts nothing: lines wait in the queue.
  explicit Logger(Options options);
  /// stop(), for a second at most.
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// Opens the destination and starts the thread. Throws std::system_error that names the
  /// destination. Call at most once, after threads with descriptor tables of their own have
  /// separated.
  void start_thread();

  /// Writes what is queued, for `limit` at most, and ends the thread; one that hangs in a write is
  /// left behind. Later lines are discarded. Idempotent; the thread that called start_thread().
  void stop(Duration limit = std::chrono::seconds{1});

  /// Opens a file destination again under its name, on the log's thread.
  void reopen() noexcept;
  void set_level(Level level) noexcept;
  void set_lines_per_second_max(std::uint32_t lines) noexcept;

  [[nodiscard]] bool would_log(Level level) const noexcept;
  [[nodiscard]] Stats stats() const noexcept;

  /// Writes a line unless its level or its kind's rate forbids it. Never throws: a line that cannot
  /// be formatted counts as overrun.
  template <class... Args>
  void write(Level level, Kind kind, Fields fields, fmt::format_string<Args...> format,
             Args&&... args) noexcept {
    if (would_log(level)) write_line(level, kind, fields, format, fmt::make_format_args(args...));
  }

 private:
  class Core;

  void write_line(Level level, Kind kind, Fields fields, fmt::string_view format,
                  fmt::format_args args) noexcept;

  std::shared_ptr<Core> core_;  // the thread's too
};

/// Makes the process's log; lines before that are discarded. Call once, early.
void init(Options options);
/// The process's log, nullptr before init(). It is never destroyed: a late line of any thread
/// finds it.
[[nodiscard]] Logger* process_log() noexcept;

// The rest acts on the process's log, and does nothing before init().

void start_thread();
void stop(Duration limit = std::chrono::seconds{1});
void reopen() noexcept;
void set_level(Level level) noexcept;
void set_lines_per_second_max(std::uint32_t lines) noexcept;
[[nodiscard]] bool would_log(Level level) noexcept;
[[nodiscard]] Stats stats() noexcept;

template <class... Args>
void write(Level level, Kind kind, Fields fields, fmt::format_string<Args...> format,
           Args&&... args) noexcept {
  if (Logger* const log = process_log()) {
    log->write(level, kind, fields, format, std::forward<Args>(args)...);
  }
}

template <class... Args>
void debug(Kind kind, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kDebug, kind, {}, format, std::forward<Args>(args)...);
}
template <class... Args>
void debug(Kind kind, Fields fields, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kDebug, kind, fields, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(Kind kind, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kInfo, kind, {}, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(Kind kind, Fields fields, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kInfo, kind, fields, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(Kind kind, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kWarn, kind, {}, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(Kind kind, Fields fields, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kWarn, kind, fields, format, std::forward<Args>(args)...);
}
template <class... Args>
void error(Kind kind, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kError, kind, {}, format, std::forward<Args>(args)...);
}
template <class... Args>
void error(Kind kind, Fields fields, fmt::format_string<Args...> format, Args&&... args) noexcept {
  write(Level::kError, kind, fields, format, std::forward<Args>(args)...);
}

}  // namespace pulsewheel::log

template <>
struct fmt::formatter<pulsewheel::log::Uid> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(pulsewheel::log::Uid uid, Context& context) const {
    return fmt::formatter<std::string_view>::format(pulsewheel::percent_encode(uid.bytes), context);
  }
};
