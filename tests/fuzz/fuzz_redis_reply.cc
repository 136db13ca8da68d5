// Fuzzes the reading of a Redis server's replies. The first byte says in pieces of how many bytes
// the rest arrives. Beside what the sanitizers find, it holds the reader to its promises: however
// the bytes are cut, the replies are the same, and none is larger than the limits allow.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "daemon/redis/reply_reader.h"

namespace pulsewheel {
namespace {

// Small, so that inputs of a few hundred bytes reach them.
constexpr ReplyLimits kLimits{.bytes_max = 256, .elements_max = 16};
// A whole reply may be longer than the limit by what arrived together with its end.
constexpr std::size_t kPieceMax = 256;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Size {
  std::size_t bytes = 0;
  std::size_t elements = 0;
  std::size_t depth = 0;
};

Size size_of(const RedisReply& reply) {
  Size size{.bytes = reply.text.size(), .elements = reply.elements.size(), .depth = 0};
  require(reply.elements.empty() || reply.is_array());
  for (const RedisReply& element : reply.elements) {
    const Size inner = size_of(element);
    size.bytes += inner.bytes;
    size.elements += inner.elements;
    size.depth = std::max(size.depth, inner.depth);
  }
  if (reply.is_array()) ++size.depth;
  return size;
}

struct Outcome {
  std::vector<RedisReply> replies;
  bool failed = false;
};

Outcome read(std::string_view bytes, std::size_t piece) {
  ReplyReader reader(kLimits);
  Outcome outcome;
  while (!bytes.empty() && !outcome.failed) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      RedisReply reply;
      const ReplyReader::Status status = reader.next(reply);
      if (status == ReplyReader::Status::kNeedMore) break;
      if (status == ReplyReader::Status::kError) {
        require(!reader.error().empty());
        require(reader.next(reply) == ReplyReader::Status::kError);
        outcome.failed = true;
        break;
      }
      const Size size = size_of(reply);
      require(size.bytes <= kLimits.bytes_max + kPieceMax);
      require(size.elements <= kLimits.elements_max);
      require(size.depth <= ReplyReader::kDepthMax);
      outcome.replies.push_back(std::move(reply));
    }
  }
  return outcome;
}

void check(std::string_view bytes, std::size_t piece) {
  const Outcome cut = read(bytes, piece);
  const Outcome by_bytes = read(bytes, 1);
  // By single bytes the limit on a reply's length is exact, and may end what larger pieces let
  // through; up to there both have read the same.
  const std::size_t common = std::min(cut.replies.size(), by_bytes.replies.size());
  require(by_bytes.replies.size() == common);
  require(std::equal(by_bytes.replies.begin(), by_bytes.replies.end(), cut.replies.begin()));
  require(by_bytes.failed || cut.replies.size() == common);
}

}  // namespace
}  // namespace pulsewheel

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = std::max<std::size_t>(data[0], 1);
  pulsewheel::check({reinterpret_cast<const char*>(data) + 1, size - 1}, piece);
  return 0;
}
