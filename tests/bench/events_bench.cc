// How fast edges get to disk, and what a hand-over costs a shard.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/events/edge_line.h"
#include "daemon/events/event_log.h"
#include "daemon/events/sequencer.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel {
namespace {

/// As when everybody expires in one tick.
EdgeBatch mass_expiry(std::size_t users) {
  EdgeBatch batch;
  const MonoTime now = MonoClock::now();
  for (std::size_t i = 0; i < users; ++i) {
    std::string uid = std::to_string(1'000'000'000'000'000 + i);  // 16 bytes
    batch.push({.uid = uid,
                .at = now,
                .last_seen = now - std::chrono::seconds{30} - std::chrono::microseconds{i},
                .due = now,
                .kind = EdgeKind::kOffline,
                .reason = EdgeReason::kTimeout});
  }
  return batch;
}

void report_edges(benchmark::State& state, std::int64_t per_iteration) {
  state.SetItemsProcessed(state.iterations() * per_iteration);
}

void BM_FormatEdgeLine(benchmark::State& state) {
  constexpr std::size_t kEdges = 1'000;
  const EdgeBatch batch = mass_expiry(kEdges);
  const WallClockMapping clock;
  EdgeLineWriter writer;
  std::vector<char> buffer(kEdges * EdgeLineWriter::kLineBytesMax);
  std::uint64_t seq = 0;
  for (auto _ : state) {
    char* out = buffer.data();
    for (std::size_t i = 0; i < kEdges; ++i)
      out = writer.write_edge(batch.at(i), 1, ++seq, clock, out);
    benchmark::DoNotOptimize(out);
  }
  report_edges(state, kEdges);
}
BENCHMARK(BM_FormatEdgeLine);

/// From the sink call until the last line is in the file.
void BM_WriteMassExpiry(benchmark::State& state) {
  constexpr std::size_t kEdges = 100'000;
  const test::TemporaryFolder folder;
  EventLog::Options options;
  options.path = folder / "events.jsonl";
  options.rotate_keep = 1;
  EventLog log(options);
  const auto batch = std::make_shared<const EdgeBatch>(mass_expiry(kEdges));
  std::uint64_t seq = 1;
  for (auto _ : state) {
    log.on_edges({batch, 1, seq});
    seq += kEdges;
    while (log.stats().written + 1 < seq)
      std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
  report_edges(state, kEdges);
}
BENCHMARK(BM_WriteMassExpiry)->UseRealTime()->Unit(benchmark::kMillisecond);

/// The sequencer's part of it.
void BM_QueueMassExpiry(benchmark::State& state) {
  constexpr std::size_t kEdges = 100'000;
  EventLog::Options options;
  options.path = "/dev/null";
  EventLog log(options);
  const auto batch = std::make_shared<const EdgeBatch>(mass_expiry(kEdges));
  std::uint64_t seq = 1;
  for (auto _ : state) {
    log.on_edges({batch, 1, seq});
    seq += kEdges;
    state.PauseTiming();
    while (log.stats().written + 1 < seq)
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    state.ResumeTiming();
  }
  report_edges(state, kEdges);
}
BENCHMARK(BM_QueueMassExpiry)->UseRealTime()->Unit(benchmark::kMillisecond);

/// What a shard pays for one edge by itself, in bursts that the sequencer catches up with.
void BM_SubmitOneEdge(benchmark::State& state) {
  constexpr int kBurst = 1'000;
  Sequencer sequencer({});
  sequencer.start({});
  const Edge edge{.uid = "0123456789abcdef", .at = {}, .last_seen = {}, .due = {}};
  bool dropped = false;
  for (auto _ : state) {
    for (int i = 0; i < kBurst; ++i) {
      EdgeBatch batch;
      batch.push(edge);
      dropped = !sequencer.submit(0, std::move(batch)) || dropped;
    }
    state.PauseTiming();
    while (sequencer.stats().queued > 0)
      std::this_thread::yield();
    state.ResumeTiming();
  }
  if (dropped) state.SkipWithError("dropped");
  report_edges(state, kBurst);
}
BENCHMARK(BM_SubmitOneEdge)->UseRealTime();

/// What a thread pays for a line that is written, and for one that its kind's rate forbids.
void BM_LogLine(benchmark::State& state) {
  log::Options options;
  options.destination = "/dev/null";
  options.lines_per_second_max = static_cast<std::uint32_t>(state.range(0));
  log::Logger log(options);
  log.start_thread();
  for (auto _ : state)
    log.write(log::Level::kInfo, "bench", {{"shard", 3}}, "took over {} sessions", 17);
}
BENCHMARK(BM_LogLine)->ArgName("limit")->Arg(0)->Arg(5)->UseRealTime();

}  // namespace
}  // namespace pulsewheel
