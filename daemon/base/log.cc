#include "daemon/base/log.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "daemon/base/check.h"
#include "daemon/base/counters.h"
#include "daemon/base/line_file.h"
#include "daemon/base/log_text.h"
#include "daemon/base/mpmc_ring.h"
#include "daemon/base/service_thread.h"
#include "daemon/base/wake_flag.h"

namespace pulsewheel::log {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warn", "error"};

/// Bytes given to one write(); while the destination refuses, lines beyond it stay in the queue.
constexpr std::size_t kWriteBytes = 16 * 1024;

/// Kinds with a rate limit of their own. They are literals in the code, about 30; should there ever
/// be more than this, some share.
constexpr std::size_t kKindsMax = 64;

/// How long suppressed lines are counted before they are told in one line.
constexpr Duration kSummaryDelay = std::chrono::seconds{1};

/// What stop() waits beyond the thread's own deadline before it calls it hung.
constexpr Duration kStopGrace = std::chrono::milliseconds{200};

/// Times that a producer tries to make room before it gives up its own line: more than one only
/// when other producers take the room.
constexpr int kPushAttempts = 4;

constexpr Kind kOwnKind = "log";

/// A line on its way to the log's thread. The payload is final: message and fields, rendered and
/// escaped for the log's format.
struct Line {
  WallTime time;
  const char* kind = nullptr;
  Level level = Level::kInfo;
  std::string payload;
};

/// spdlog's name for the third level is "warning"; ours is what the configuration says.
class LevelName final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& msg, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view name = kLevelNames[static_cast<std::size_t>(msg.level) - kFirstLevel];
    out.append(name.data(), name.data() + name.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelName>();
  }

  static constexpr std::size_t kFirstLevel = spdlog::level::debug;
  static_assert(spdlog::level::err == kFirstLevel + static_cast<std::size_t>(Level::kError));
};

spdlog::level::level_enum spdlog_level(Level level) {
  return static_cast<spdlog::level::level_enum>(LevelName::kFirstLevel +
                                                static_cast<std::size_t>(level));
}

std::unique_ptr<spdlog::formatter> make_formatter(Format format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<LevelName>('*').set_pattern(
      format == Format::kHuman ? "%Y-%m-%dT%H:%M:%S.%fZ %* %n: %v"
                               : R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%*","kind":"%n",%v})");
  return formatter;
}

/// Formats into the buffer of a LineOutput. Any other spdlog sink could stand in its place.
class BufferSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  BufferSink(std::string& buffer, Format format)
      : base_sink(make_formatter(format)), buffer_(buffer) {}

 private:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    spdlog::memory_buf_t text;
    formatter_->format(msg, text);
    buffer_.append(text.data(), text.size());
  }
  void flush_() override {}

  std::string& buffer_;
};

LineFile open_destination(const std::string& destination) {
  if (destination == "stderr") return {STDERR_FILENO, destination};
  if (destination == "stdout") return {STDOUT_FILENO, destination};
  return LineFile({.path = destination, .rotate_bytes = 0, .rotate_keep = 0, .calls = {}});
}

/// Appends a field's value, in either format.
class ValueWriter {
 public:
  ValueWriter(std::string& out, Format format) : out_(out), json_(format == Format::kJson) {}

  void operator()(std::string_view text) const {
    json_ ? append_json_string(out_, text) : append_human_value(out_, text);
  }
  void operator()(Uid uid) const { (*this)(std::string_view(percent_encode(uid.bytes))); }
  void operator()(bool value) const { out_ += value ? "true" : "false"; }
  void operator()(double value) const {
    // JSON has no number for these.
    const bool finite = value - value == 0;
    json_ && !finite ? (*this)(std::string_view(fmt::to_string(value)))
                     : static_cast<void>(out_ += fmt::to_string(value));
  }
  template <std::integral T>
  void operator()(T value) const {
    out_ += fmt::to_string(value);
  }

 private:
  std::string& out_;
  bool json_;
};

std::string render(Format format, std::string_view message, Fields fields) {
  std::string out;
  if (format == Format::kHuman) {
    append_printable(out, message);
  } else {
    out += R"("msg":)";
    append_json_string(out, message);
  }
  for (const Field& field : fields) {
    if (format == Format::kHuman) {
      out.append(" ").append(field.key()).append("=");
    } else {
      out.append(",\"").append(field.key()).append("\":");
    }
    std::visit(ValueWriter(out, format), field.value());
  }
  return out;
}

/// Lines per second and kind. Any thread; no locks.
class RateLimiter {
 public:
  explicit RateLimiter(std::uint32_t limit) : limit_(limit) {}

  void set_limit(std::uint32_t limit) noexcept { limit_.store(limit, std::memory_order_relaxed); }

  enum class Verdict { kWrite, kSuppress, kSuppressFirst };
  /// Counts a line. kSuppressFirst: it is the first since take_suppressed(), so the log's thread
  /// does not know yet.
  Verdict count(Kind kind, MonoTime now) noexcept {
    const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
    if (limit == 0 || !kind.limited()) return Verdict::kWrite;
    Entry& entry = entry_of(kind);
    if (entry.count_in_second(now) <= limit) return Verdict::kWrite;
    const bool first = entry.suppressed.fetch_add(1, std::memory_order_relaxed) == 0;
    return first ? Verdict::kSuppressFirst : Verdict::kSuppress;
  }

  /// Calls `tell(kind name, lines)` for each kind that had lines suppressed, and forgets them.
  template <class Tell>
  void take_suppressed(Tell tell) {
    for (Entry& entry : entries_) {
      const std::uint64_t lines = entry.suppressed.exchange(0, std::memory_order_relaxed);
      if (lines > 0) tell(entry.name.load(std::memory_order_acquire), lines);
    }
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> hash{0};  // of the kind; 0: free
    std::atomic<const char*> name{"?"};
    std::atomic<std::uint64_t> window{0};  // second (40 bits), lines in it (24 bits, saturating)
    std::atomic<std::uint64_t> suppressed{0};

    static constexpr unsigned kCountBits = 24;
    static constexpr std::uint64_t kCountMax = (1U << kCountBits) - 1;

    /// Lines of this second, this one included.
    std::uint64_t count_in_second(MonoTime now) noexcept {
      const auto second = static_cast<std::uint64_t>(
          std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count());
      std::uint64_t seen = window.load(std::memory_order_relaxed);
      std::uint64_t next = 0;
      do {
        const bool same = seen >> kCountBits == second;
        if (same && (seen & kCountMax) == kCountMax) return kCountMax;
        next = same ? seen + 1 : (second << kCountBits) + 1;
      } while (!window.compare_exchange_weak(seen, next, std::memory_order_relaxed));
      return next & kCountMax;
    }
  };

  Entry& entry_of(Kind kind) noexcept {
    const std::size_t home = kind.hash() % kKindsMax;
    for (std::size_t probe = 0; probe < kKindsMax; ++probe) {
      Entry& entry = entries_[(home + probe) % kKindsMax];
      std::uint64_t owner = entry.hash.load(std::memory_order_relaxed);
      if (owner == 0 &&
          entry.hash.compare_exchange_strong(owner, kind.hash(), std::memory_order_relaxed)) {
        entry.name.store(kind.name(), std::memory_order_release);
        return entry;
      }
      if (owner == kind.hash()) return entry;
    }
    return entries_[home];
  }

  std::atomic<std::uint32_t> limit_;
  std::array<Entry, kKindsMax> entries_;
};

}  // namespace

std::string_view to_string(Level level) noexcept {
  return kLevelNames[static_cast<std::size_t>(level)];
}

/// All that the thread needs, shared with it: it may hang in a write for longer than the Logger
/// lives.
class Logger::Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(Options options)
      : destination_(std::move(options.destination)),
        format_(options.format),
        level_(options.level),
        limiter_(options.lines_per_second_max),
        queue_(options.queue_lines_max) {}

  // Any thread.
  [[nodiscard]] bool would_log(Level level) const noexcept {
    return level >= level_.load(std::memory_order_relaxed) &&
           !stopped_.load(std::memory_order_relaxed);
  }
  void set_level(Level level) noexcept { level_.store(level, std::memory_order_relaxed); }
  void set_limit(std::uint32_t lines) noexcept { limiter_.set_limit(lines); }
  void write(Level level, Kind kind, Fields fields, fmt::string_view format, fmt::format_args args);
  void count_overrun() noexcept { overrun_.fetch_add(1, std::memory_order_relaxed); }
  void reopen() noexcept {
    reopen_wanted_.store(true, std::memory_order_release);
    wake_.raise();
  }
  [[nodiscard]] Stats stats() const noexcept;

  // The owner's thread.
  void start();
  void stop(Duration limit);

 private:
  [[nodiscard]] bool admit(Kind kind) noexcept;
  void push(Line line) noexcept;

  void run();
  [[nodiscard]] bool take_lines();
  void tell_losses(MonoTime now);
  void append_own(Level level, const std::string& message);
  void append(const Line& line);
  bool write_buffer();
  [[nodiscard]] bool finished();
  void sleep();

  // Any thread.
  const std::string destination_;
  const Format format_;
  std::atomic<Level> level_;
  RateLimiter limiter_;
  MpmcRing<Line> queue_;
  std::atomic<std::uint64_t> overrun_{0};
  std::atomic<std::uint64_t> suppressed_{0};
  std::atomic<bool> summary_wanted_{false};
  std::atomic<bool> reopen_wanted_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<MonoTime> stop_by_{MonoTime::max()};
  WakeFlag wake_;
  Counter written_;  // the log's thread writes these two
  Gauge errors_;

  // The log's thread, from start() on.
  std::optional<LineOutput> output_;
  std::optional<BufferSink> sink_;
  std::optional<MonoTime> summary_at_;
  std::uint64_t overrun_told_ = 0;
  bool stopping_ = false;

  ServiceThread thread_;  // the owner's
};

// Any thread.

bool Logger::Core::admit(Kind kind) noexcept {
  const RateLimiter::Verdict verdict = limiter_.count(kind, MonoClock::now());
  if (verdict == RateLimiter::Verdict::kWrite) return true;
  suppressed_.fetch_add(1, std::memory_order_relaxed);
  if (verdict == RateLimiter::Verdict::kSuppressFirst) {
    summary_wanted_.store(true, std::memory_order_release);
    wake_.raise();
  }
  return false;
}

void Logger::Core::write(Level level, Kind kind, Fields fields, fmt::string_view format,
                         fmt::format_args args) {
  if (!admit(kind)) return;
  std::array<char, kMessageBytesMax> message;
  const auto [end, size] = fmt::vformat_to_n(message.data(), message.size(), format, args);
  const std::string_view text(message.data(), static_cast<std::size_t>(end - message.data()));
  push({std::chrono::system_clock::now(), kind.name(), level, render(format_, text, fields)});
}

/// Makes room by dropping the oldest line.
void Logger::Core::push(Line line) noexcept {
  for (int attempt = 0; attempt < kPushAttempts; ++attempt) {
    if (queue_.try_push(line)) {
      wake_.raise();
      return;
    }
    if (queue_.try_pop()) count_overrun();
  }
  count_overrun();
}

Stats Logger::Core::stats() const noexcept {
  return {written_.value(), overrun_.load(std::memory_order_relaxed),
          suppressed_.load(std::memory_order_relaxed), static_cast<std::uint64_t>(errors_.value())};
}

// The owner's thread.

void Logger::Core::start() {
  PULSEWHEEL_CHECK(!output_);
  output_.emplace(open_destination(destination_));
  sink_.emplace(output_->buffer(), format_);
  thread_.start("pw-log", [self = shared_from_this()] { self->run(); });
}

void Logger::Core::stop(Duration limit) {
  if (stopped_.exchange(true)) return;
  const MonoTime deadline = MonoClock::now() + limit;
  stop_by_.store(deadline, std::memory_order_release);
  wake_.raise();
  static_cast<void>(thread_.join_within(limit + kStopGrace));
}

// The log's thread.

void Logger::Core::run() {
  for (;;) {
    if (reopen_wanted_.exchange(false, std::memory_order_acq_rel)) output_->reopen();
    const bool took_any = take_lines();
    tell_losses(MonoClock::now());
    const bool wrote_any = write_buffer();
    if (took_any || wrote_any) continue;  // the queue may hold more than one buffer
    if (finished()) break;
    sleep();
  }
}

/// False: the queue is empty, or the buffer is full because the destination refuses.
bool Logger::Core::take_lines() {
  bool any = false;
  while (output_->buffer().size() < kWriteBytes) {
    const auto line = queue_.try_pop();
    if (!line) break;
    append(*line);
    any = true;
  }
  return any;
}

bool Logger::Core::write_buffer() {
  const std::size_t bytes = output_->flush(MonoClock::now());
  const std::string_view gone = std::string_view(output_->buffer()).substr(0, bytes);
  written_.add(static_cast<std::uint64_t>(std::count(gone.begin(), gone.end(), '\n')));
  output_->drop_front(bytes);
  errors_.set(static_cast<std::int64_t>(output_->errors()));
  return bytes > 0;
}

/// Says how many lines are missing and why, when the destination has room for it.
void Logger::Core::tell_losses(MonoTime now) {
  if (summary_wanted_.exchange(false, std::memory_order_acq_rel) && !summary_at_) {
    summary_at_ = now + kSummaryDelay;
  }
  if (output_->buffer().size() >= kWriteBytes) return;
  if (const std::uint64_t overrun = overrun_.load(std::memory_order_relaxed);
      overrun != overrun_told_) {
    append_own(Level::kWarn, fmt::format("lost {} lines: the destination was too slow",
                                         overrun - std::exchange(overrun_told_, overrun)));
  }
  if (summary_at_ && (now >= *summary_at_ || stopping_)) {
    summary_at_.reset();
    limiter_.take_suppressed([this](const char* kind, std::uint64_t lines) {
      append_own(Level::kWarn, fmt::format("suppressed {} lines of kind {}", lines, kind));
    });
  }
}

void Logger::Core::append_own(Level level, const std::string& message) {
  append({std::chrono::system_clock::now(), kOwnKind.name(), level, render(format_, message, {})});
}

void Logger::Core::append(const Line& line) {
  sink_->log(
      spdlog::details::log_msg(std::chrono::time_point_cast<spdlog::log_clock::duration>(line.time),
                               {}, line.kind, spdlog_level(line.level), line.payload));
}

/// True when stopping and either everything is written or time is up.
bool Logger::Core::finished() {
  const MonoTime stop_by = stop_by_.load(std::memory_order_acquire);
  if (stop_by == MonoTime::max()) return false;
  if (!stopping_) {
    stopping_ = true;
    output_->retry_now();
    return false;  // one round more: what came before stop() may still be in the queue
  }
  return output_->buffer().empty() || MonoClock::now() >= stop_by;
}

void Logger::Core::sleep() {
  std::optional<MonoTime> until = output_->retry_at();
  if (!until && (stopping_ || !output_->buffer().empty())) return;
  if (summary_at_ && (!until || *summary_at_ < *until)) until = summary_at_;
  if (until) {
    const MonoTime stop_by = stop_by_.load(std::memory_order_acquire);
    static_cast<void>(wake_.wait_until(std::min(*until, stop_by)));
  } else {
    wake_.wait();
  }
}

// Logger.

Logger::Logger(Options options) : core_(std::make_shared<Core>(std::move(options))) {}
Logger::~Logger() {
  stop();
}

void Logger::start_thread() {
  core_->start();
}
void Logger::stop(Duration limit) {
  core_->stop(limit);
}
void Logger::reopen() noexcept {
  core_->reopen();
}
void Logger::set_level(Level level) noexcept {
  core_->set_level(level);
}
void Logger::set_lines_per_second_max(std::uint32_t lines) noexcept {
  core_->set_limit(lines);
}
bool Logger::would_log(Level level) const noexcept {
  return core_->would_log(level);
}
Stats Logger::stats() const noexcept {
  return core_->stats();
}

void Logger::write_line(Level level, Kind kind, Fields fields, fmt::string_view format,
                        fmt::format_args args) noexcept {
  try {
    core_->write(level, kind, fields, format, args);
  } catch (...) {  // no memory; losing a line is all that may happen
    core_->count_overrun();
  }
}

// The process's log.

namespace {
std::atomic<Logger*> process_logger{nullptr};
}

void init(Options options) {
  PULSEWHEEL_CHECK(process_log() == nullptr);
  process_logger.store(new Logger(std::move(options)), std::memory_order_release);
}

Logger* process_log() noexcept {
  return process_logger.load(std::memory_order_acquire);
}

void start_thread() {
  if (Logger* const log = process_log()) log->start_thread();
}

void stop(Duration limit) {
  if (Logger* const log = process_log()) log->stop(limit);
}

void reopen() noexcept {
  if (Logger* const log = process_log()) log->reopen();
}

void set_level(Level level) noexcept {
  if (Logger* const log = process_log()) log->set_level(level);
}

void set_lines_per_second_max(std::uint32_t lines) noexcept {
  if (Logger* const log = process_log()) log->set_lines_per_second_max(lines);
}

bool would_log(Level level) noexcept {
  const Logger* const log = process_log();
  return log != nullptr && log->would_log(level);
}

Stats stats() noexcept {
  const Logger* const log = process_log();
  return log != nullptr ? log->stats() : Stats{};
}

}  // namespace pulsewheel::log
