// ReplyReader: cuts a stream of bytes from a Redis server into replies, within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/redis/redis_reply.h"

struct redisReadTask;  // hiredis'
struct redisReader;

namespace pulsewheel {

/// What one reply may cost. Nothing is ever allocated because a length says so: only for bytes and
/// elements that have arrived.
struct ReplyLimits {
  std::size_t bytes_max = 16 * 1024 * 1024;  // of one whole reply, on the wire
  std::size_t elements_max = 65'536;         // in all arrays of one reply together
};

/// hiredis' reader with values of our own, so that limits hold while a reply is being built. Speaks
/// RESP2 only: a reply of RESP3, which nobody asked for, is an error. Any thread, one at a time.
class ReplyReader {
 public:
  enum class Status : std::uint8_t { kReply, kNeedMore, kError };

  /// Arrays in arrays in arrays; hiredis 0.14 has no room for more.
  static constexpr std::size_t kDepthMax = 7;

  explicit ReplyReader(ReplyLimits limits = {});
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  /// Appends a copy of `bytes`. Feed pieces of some 16 KiB and take all replies after each: hiredis
  /// moves what is left with every reply.
  void feed(std::string_view bytes);

  /// The next complete reply, moved to `out`. After kError, which error() explains, the stream is
  /// lost and the answer stays kError.
  [[nodiscard]] Status next(RedisReply& out);

  /// One sentence for the log, without bytes of the server's but one it could not read; empty
  /// without an error. Lives as long as the reader.
  [[nodiscard]] std::string_view error() const noexcept { return error_; }

 private:
  struct Building;
  struct Functions;
  struct FreeReader {
    void operator()(redisReader* reader) const noexcept;
  };

  Status fail(std::string_view error) noexcept;
  Status need_more();
  [[nodiscard]] std::size_t announced_string_size() const noexcept;

  const ReplyLimits limits_;
  std::unique_ptr<Building> building_;
  std::unique_ptr<redisReader, FreeReader> reader_;
  std::size_t bytes_ = 0;   // fed since the last complete reply ended
  std::string_view error_;  // not owned: without memory there is still an error to tell
};

}  // namespace pulsewheel
