// What the codec costs; per_frame is the figure to read.
#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/frame.h"

namespace pulsewheel::proto {
namespace {

constexpr std::size_t kFrames = 1000;

std::vector<std::byte> repeat(std::span<const std::byte> frame) {
  std::vector<std::byte> stream;
  for (std::size_t i = 0; i < kFrames; ++i)
    stream.insert(stream.end(), frame.begin(), frame.end());
  return stream;
}

std::vector<std::byte> message_frame(std::size_t body_size) {
  const std::vector<std::byte> body(body_size);
  std::vector<std::byte> frame(kHeaderSize + kMessageIdSize + body_size);
  frame.resize(encode_message({.id = 7, .body = body}, frame));
  return frame;
}

std::vector<std::byte> login_frame() {
  std::vector<std::byte> frame(kLoginFrameSizeMax);
  frame.resize(
      encode_login({.interval_ms = 20'000, .uid = "user-00000000001", .device = "phone"}, frame));
  return frame;
}

void report_frames(benchmark::State& state, std::size_t frames_per_iteration) {
  using benchmark::Counter;
  state.counters["per_frame"] = Counter(static_cast<double>(frames_per_iteration),
                                        Counter::kIsIterationInvariantRate | Counter::kInvert);
}

/// Cuts `stream` into frames and gives each to `handle`, as a session does.
template <class Handle>
void read_stream(benchmark::State& state, const std::vector<std::byte>& stream, Stage stage,
                 const Handle& handle) {
  const Limits limits;
  for (auto _ : state) {
    std::span<const std::byte> rest(stream);
    while (true) {
      const NextFrame next = next_frame(rest, stage, limits);
      if (next.status != NextFrame::Status::kFrame) break;
      handle(next.frame);
      rest = rest.subspan(next.size);
    }
    if (!rest.empty()) state.SkipWithError("the stream was not read to its end");
  }
  report_frames(state, kFrames);
}

void BM_DecodeKeepalive(benchmark::State& state) {
  read_stream(state, repeat(encode_keepalive()), Stage::kAfterLogin,
              [](const Frame& frame) { benchmark::DoNotOptimize(frame.header); });
}
BENCHMARK(BM_DecodeKeepalive);

// One keepalive per buffer, as nearly every read brings it, with its acknowledgement.
void BM_KeepaliveAndAck(benchmark::State& state) {
  const Limits limits;
  const auto input = encode_keepalive();
  std::array<std::byte, kHeaderSize> reply{};
  for (auto _ : state) {
    std::span<const std::byte> bytes(input);
    benchmark::DoNotOptimize(bytes);
    const NextFrame next = next_frame(bytes, Stage::kAfterLogin, limits);
    if (next.status == NextFrame::Status::kFrame && (next.frame.header.flags & kNoReply) == 0) {
      reply = kKeepaliveAck;
    }
    benchmark::DoNotOptimize(reply);
  }
  report_frames(state, 1);
}
BENCHMARK(BM_KeepaliveAndAck);

void BM_DecodeMessage(benchmark::State& state) {
  read_stream(state, repeat(message_frame(static_cast<std::size_t>(state.range(0)))),
              Stage::kAfterLogin, [](const Frame& frame) {
                Message message;
                benchmark::DoNotOptimize(decode_message(frame.payload, message));
                benchmark::DoNotOptimize(message);
              });
}
BENCHMARK(BM_DecodeMessage)->Arg(0)->Arg(64)->Arg(4096);

void BM_DecodeLogin(benchmark::State& state) {
  read_stream(state, repeat(login_frame()), Stage::kBeforeLogin, [](const Frame& frame) {
    Login login;
    benchmark::DoNotOptimize(decode_login(frame.payload, login));
    benchmark::DoNotOptimize(login);
  });
}
BENCHMARK(BM_DecodeLogin);

void BM_EncodeLoginAck(benchmark::State& state) {
  LoginAck ack{.timeout_ms = 30'000, .interval_ms = 19'190, .session_id = 1};
  std::array<std::byte, kLoginAckFrameSize> out{};
  for (auto _ : state) {
    ++ack.session_id;
    benchmark::DoNotOptimize(encode_login_ack(ack, out));
    benchmark::DoNotOptimize(out);
  }
  report_frames(state, 1);
}
BENCHMARK(BM_EncodeLoginAck);

}  // namespace
}  // namespace pulsewheel::proto
