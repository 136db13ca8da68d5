// Random streams, valid and damaged, in random pieces: the codec against a naive reading of
// PROTOCOL.md that has the whole stream before it and shares no code with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proto/frame.h"
#include "tests/unit/proto/bytes.h"
#include "tests/unit/proto/stream_reader.h"

namespace pulsewheel::proto {
namespace {

constexpr int kStreams = 20'000;
constexpr Limits kSmallLimits{.payload_before_login_max = 200, .payload_after_login_max = 300};

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) {
  return static_cast<std::size_t>(random() % bound);
}

std::string random_bytes(Random& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes)
    c = static_cast<char>(random());
  return bytes;
}

void append_frame(std::string& stream, char type, char flags, std::string_view payload) {
  stream += type;
  stream += flags;
  stream += static_cast<char>(payload.size() / 256);
  stream += static_cast<char>(payload.size() % 256);
  stream += payload;
}

// A LOGIN (forgotten in one stream of ten) and some frames behind it; then, in two streams of
// three, a few bytes are changed, cut out or added.
std::string random_stream(Random& random) {
  std::string stream;
  if (below(random, 10) != 0) append_frame(stream, 1, 0, random_bytes(random, below(random, 201)));
  for (std::size_t i = below(random, 20); i > 0; --i) {
    switch (below(random, 3)) {
      case 0:
        append_frame(stream, 2, static_cast<char>(below(random, 2)), "");
        break;
      case 1:
        append_frame(stream, 3, 0, random_bytes(random, below(random, 301)));
        break;
      default:
        append_frame(stream, 4, 0, "");
        break;
    }
  }
  if (below(random, 3) == 0) return stream;
  for (std::size_t i = 1 + below(random, 3); i > 0 && !stream.empty(); --i) {
    const std::size_t at = below(random, stream.size());
    switch (below(random, 3)) {
      case 0:
        stream[at] = static_cast<char>(random());
        break;
      case 1:
        stream.erase(at, 1 + below(random, 8));
        break;
      default:
        stream.insert(at, random_bytes(random, 1 + below(random, 8)));
        break;
    }
  }
  return stream;
}

// PROTOCOL.md once more, in the plainest way.
std::vector<std::string> naive_events(std::string_view stream) {
  const std::map<int, std::string> names = {
      {1, "login"}, {2, "keepalive"}, {3, "message"}, {4, "logout"}};
  std::vector<std::string> events;
  bool logged_in = false;
  while (stream.size() >= 4) {
    const int type = static_cast<unsigned char>(stream[0]);
    const int flags = static_cast<unsigned char>(stream[1]);
    const std::size_t size =
        static_cast<unsigned char>(stream[2]) * 256u + static_cast<unsigned char>(stream[3]);
    std::string error;
    if (!names.contains(type)) {
      const bool stray = type == 0 || type == 10 || type == 13 || type == 16 || type == 42 ||
                         (type == 22 && flags == 3) || (type >= 65 && type <= 90) ||
                         (type >= 97 && type <= 122);
      error = stray && !logged_in ? "not_this_protocol" : "unknown_type";
    } else if (!logged_in && type != 1) {
      error = "login_required";
    } else if (logged_in && type == 1) {
      error = "not_allowed";
    } else if (flags > (type == 2 ? 1 : 0)) {
      error = "reserved_flags";
    } else if (size > (type == 1 ? 200u : type == 3 ? 300u : 0u)) {
      error = "payload_too_long";
    }
    if (!error.empty()) {
      events.push_back("error:" + error);
      return events;
    }
    if (stream.size() < 4 + size) return events;
    events.push_back(names.at(type) + ":" + to_hex(as_bytes(stream.substr(4, size))));
    stream.remove_prefix(4 + size);
    logged_in = true;
  }
  return events;
}

TEST(CodecOracleTest, RandomStreamsInRandomPiecesGiveWhatTheSpecificationSays) {
  constexpr std::uint64_t kSeed = 20260101;
  Random random(kSeed);
  std::map<std::string, int> seen;
  for (int i = 0; i < kStreams; ++i) {
    const std::string stream = random_stream(random);
    StreamReader reader(kSmallLimits);
    for (std::string_view rest = stream; !rest.empty();) {
      const std::size_t size = std::min(rest.size(), 1 + below(random, 64));
      reader.feed(as_bytes(rest.substr(0, size)));
      rest.remove_prefix(size);
    }
    ASSERT_EQ(reader.events(), naive_events(stream)) << "seed " << kSeed << ", stream " << i;
    for (const std::string& event : reader.events()) {
      ++seen[event.starts_with("error:") ? event : event.substr(0, event.find(':'))];
    }
  }
  for (const std::string_view event :
       {"login", "keepalive", "message", "logout", "error:not_this_protocol", "error:unknown_type",
        "error:login_required", "error:not_allowed", "error:reserved_flags",
        "error:payload_too_long"}) {
    EXPECT_GT(seen[std::string(event)], 10) << event << " was hardly tried";
  }
}

// What a LOGIN payload says, in the plainest way; "" for any error.
std::string naive_login(std::string_view payload) {
  const auto byte = [payload](std::size_t i) { return static_cast<unsigned char>(payload[i]); };
  if (payload.size() < 10) return "";
  if (byte(0) != 1 || byte(1) < 1) return "";
  const std::size_t uid_size = byte(6);
  const std::size_t device_size = byte(7);
  const std::size_t token_size = byte(8) * 256u + byte(9);
  if (uid_size < 1 || uid_size > 128 || device_size > 64 || token_size > 512) return "";
  std::size_t at = 10 + uid_size + device_size + token_size;
  if (at > payload.size()) return "";
  const std::string fields = std::string(payload.substr(10, uid_size)) + "|" +
                             std::string(payload.substr(10 + uid_size, device_size)) + "|" +
                             std::string(payload.substr(10 + uid_size + device_size, token_size));
  for (int count = 0; at != payload.size(); ++count) {
    if (payload.size() - at < 4 || count == 16 || byte(at) >= 128) return "";
    at += 4 + byte(at + 2) * 256u + byte(at + 3);
    if (at > payload.size()) return "";
  }
  return fields;
}

TEST(CodecOracleTest, RandomLoginsAreReadAsTheSpecificationSays) {
  constexpr std::uint64_t kSeed = 20260102;
  Random random(kSeed);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 10 * kStreams; ++i) {
    const std::size_t uid_size = below(random, 131);
    const std::size_t device_size = below(random, 67);
    const std::size_t token_size = below(random, 8) == 0 ? below(random, 600) : 0;
    std::string payload{'\1', '\1', 0, 0, 0, 0};
    payload += static_cast<char>(uid_size);
    payload += static_cast<char>(device_size);
    payload += static_cast<char>(token_size / 256);
    payload += static_cast<char>(token_size % 256);
    payload += random_bytes(random, uid_size + device_size + token_size);
    for (std::size_t n = below(random, 20) / 10 * below(random, 20); n > 0; --n) {
      append_frame(payload, static_cast<char>(below(random, 128)), 0,
                   random_bytes(random, below(random, 9)));
    }
    if (below(random, 2) == 0) {
      payload[below(random, payload.size())] = static_cast<char>(random());
    }
    if (below(random, 4) == 0) payload.resize(below(random, payload.size() + 4));

    Login login;
    const ErrorCode error = decode_login(as_bytes(payload), login);
    const std::string expected = naive_login(payload);
    ASSERT_EQ(error == ErrorCode::kNone, !expected.empty())
        << "seed " << kSeed << ", login " << i << ": " << to_string(error);
    if (error == ErrorCode::kNone) {
      ASSERT_EQ(
          std::string(login.uid) + "|" + std::string(login.device) + "|" + std::string(login.token),
          expected)
          << "seed " << kSeed << ", login " << i;
    }
    ++(error == ErrorCode::kNone ? accepted : refused);
  }
  EXPECT_GT(accepted, kStreams);
  EXPECT_GT(refused, kStreams);
}

}  // namespace
}  // namespace pulsewheel::proto
