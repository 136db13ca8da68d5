// Snapshots of very many users, and runs that are killed while they write. Label slow.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon/events/epoch_store.h"
#include "daemon/events/snapshot_file.h"
#include "daemon/events/snapshot_format.h"
#include "tests/integration/client.h"
#include "tests/integration/daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/temporary_folder.h"

namespace pulsewheel::test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A state folder as a run leaves it that ended in order with `users` users, 16 bytes of uid each,
/// who are online.
void make_state(const std::string& state_dir, std::size_t users) {
  EpochStore store(state_dir);
  SnapshotHead head;
  head.purpose = SnapshotHead::Purpose::kEnd;
  head.folder = store.folder_id();
  head.epoch = store.epoch();
  head.at = ClockSample::take();
  StateFileWriter file(state_dir, kSnapshotName);
  SnapshotEncoder encoder(head, [&file](std::string_view bytes) { file.write(bytes); });
  for (std::size_t i = 0; i < users; ++i) {
    const std::string number = std::to_string(i);
    UserImageBatch one;
    one.add({.uid = "user-" + std::string(11 - number.size(), '0') + number,
             .since = head.at.mono - hours{5},
             .last_seen = head.at.mono - milliseconds{i % 20'000}});
    one.add_session({.login_at = head.at.mono - hours{5},
                     .last_packet = head.at.mono - milliseconds{i % 20'000},
                     .deadline = head.at.mono + seconds{30} - milliseconds{i % 20'000},
                     .device = {}});
    encoder.add(one);
  }
  encoder.finish(users);
  file.commit();
  store.mark_end();
}

/// The longest time that an answer to a KEEPALIVE took, over `length`.
Client::Clock::duration slowest_answer(Client& client, Client::Clock::duration length) {
  Client::Clock::duration slowest{0};
  const auto end = Client::Clock::now() + length;
  while (Client::Clock::now() < end) {
    const auto asked = Client::Clock::now();
    client.send_keepalive();
    client.expect(proto::FrameType::kKeepaliveAck);
    slowest = std::max(slowest, Client::Clock::now() - asked);
    ::usleep(500);
  }
  return slowest;
}

double to_ms(Client::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

TEST(SnapshotScaleTest, AMillionUsersAreWrittenWithoutAPause) {
  constexpr std::size_t kUsers = 1'000'000;
  const TemporaryFolder folder;
  const std::string state_dir = folder / "state";
  make_state(state_dir, kUsers);
  const std::string config =
      "server.shards = 2\npresence.users_max = 2000000\nrestart.grace = \"1h\"\n"
      "presence.timeout = \"30s\"\nsnapshot.interval = ";
  const auto began = Client::Clock::now();
  const Daemon daemon({.state_dir = state_dir, .config = config + "\"24h\"\n"});
  const auto started = Client::Clock::now() - began;
  ASSERT_EQ(daemon.metric("pulsewheel_snapshot_restored_users{state=\"online\"}"), kUsers);
  Client client(daemon.port());
  client.login("alice");
  const auto without = slowest_answer(client, seconds{3});

  ASSERT_TRUE(daemon.reload(config + "\"100ms\"\n"));
  Client::Clock::duration with{0};
  while (daemon.metric("pulsewheel_snapshot_writes_total") < 3)
    with = std::max(with, slowest_answer(client, milliseconds{200}));
  const double bytes = daemon.metric("pulsewheel_snapshot_bytes");
  const double duration = daemon.metric("pulsewheel_snapshot_duration_seconds");
  EXPECT_EQ(daemon.metric("pulsewheel_snapshot_users"), kUsers + 1);
  std::cout << "start with " << kUsers << " users: " << to_ms(started)
            << " ms; a snapshot: " << duration * 1'000 << " ms, " << bytes / (kUsers + 1)
            << " bytes a user; slowest answer without: " << to_ms(without)
            << " ms, with snapshots: " << to_ms(with) << " ms\n";
  EXPECT_LE(bytes / (kUsers + 1), 40);
#ifdef NDEBUG
  EXPECT_LE(duration, 10);
  EXPECT_LE(to_ms(with), std::max(50.0, 2 * to_ms(without)));
#endif
}

TEST(SnapshotKillTest, TwoHundredKillsLeaveOneWholeSnapshotEach) {
  constexpr int kKills = 200;
  constexpr std::size_t kUsers = 20'000;
  const TemporaryFolder folder;
  const std::string state_dir = folder / "state";
  make_state(state_dir, kUsers);
  std::minstd_rand random(4711);
  std::size_t epochs_of_snapshots = 0;
  std::uint32_t last = 1;
  for (int i = 0; i < kKills; ++i) {
    Daemon daemon({.sets = {"restart.grace=1h", "snapshot.interval=100ms",
                            "presence.users_max=100000", "presence.timeout=1h"},
                   .state_dir = state_dir});
    Client client(daemon.port());  // something to write down
    client.login("visitor-" + std::to_string(i));
    std::this_thread::sleep_for(milliseconds{random() % 200});
    daemon.signal(SIGKILL);
    daemon.wait();
    EpochStore store(state_dir);
    const SnapshotFile file(state_dir, store.folder_id(), store.epoch());
    ASSERT_EQ(file.state(), SnapshotFile::State::kGood) << "kill " << i << ": " << file.problem();
    ASSERT_GE(file.end().users_online, kUsers);
    if (file.head().epoch != last) ++epochs_of_snapshots;
    last = file.head().epoch;
  }
  EXPECT_GT(epochs_of_snapshots, 20U);  // else nothing was written, and nothing shown
  EXPECT_LT(epochs_of_snapshots, 195U);
}

}  // namespace
}  // namespace pulsewheel::test
