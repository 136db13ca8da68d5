// Server: the whole daemon. Puts the parts together, hears signals, drains and stops.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/admin/http_server.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/event_log.h"
#include "daemon/events/sequencer.h"
#include "daemon/redis/mirror.h"
#include "daemon/server/node_status.h"
#include "daemon/server/options.h"
#include "daemon/server/redis_sink.h"
#include "daemon/server/reload.h"
#include "daemon/server/shard.h"

namespace pulsewheel {

/// Exit codes of the daemon, after BSD's sysexits.h where that has one.
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,
  kUnavailable = 69,  // a port or a node's name in use, an address that is not ours
  kBug = 70,
  kOs = 71,            // too few descriptors, no thread
  kCannotCreate = 73,  // a file or folder that cannot be made
  kIo = 74,
  kConfig = 78,
};

/// The daemon cannot start. what() is one line for people.
class StartError : public std::runtime_error {
 public:
  StartError(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Belongs to the main thread, which blocks all signals before it makes one.
///
/// Start, in this order, because descriptors made before a shard has separated its table are in
/// every table, and those made after are in one: event loops and signal handling; shards start
/// and separate; then logs, Redis, HTTP and listeners are opened.
class Server final : private ShardObserver {
 public:
  /// Takes the state folder and makes the event loops; nothing runs yet. `source` is what `config`
  /// was loaded from, for HUP. Throws StartError.
  Server(Config config, ConfigSource source);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serves until TERM or INT has been carried out. Throws StartError when it cannot start.
  void run();

 private:
  void plan();
  void make_shards();
  void make_mirror();
  void report_offline(std::vector<std::string> uids);
  void take_users_back();
  void start_shards();
  void start_logs();
  void open_listeners();
  void start_http();
  void write_ports_file() const;
  void announce() const;

  void do_wait_signal();
  void on_signal(int signal);
  void reload();
  void begin_drain();
  void give_up(const StartError& failure);
  void finish();
  void mark_end() noexcept;

  void on_statistics(ShardIndex shard) override;
  void on_drained(ShardIndex shard) override;

  /// Runs `task` on the shard's thread and waits. What it throws comes out here.
  void run_on_shard(Shard& shard, const std::function<void()>& task);

  Config config_;  // what holds: at the start, and after each reload
  Reloader reloader_;
  NodeFacts facts_;
  std::unique_ptr<EpochStore> epoch_store_;
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer drain_limit_;
  std::unique_ptr<EventLog> event_log_;
  std::optional<StartError> failure_;      // why this node ends by itself
  std::unique_ptr<ShardRosters> rosters_;  // null with redis.mode = "off", as the next two
  std::unique_ptr<RedisMirror> mirror_;
  std::future<DeadlineBatch> own_users_;  // in Redis, at the start
  std::unique_ptr<RedisSink> redis_sink_;
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<NodeStatus> status_;
  std::unique_ptr<HttpServer> http_;  // outlives the shards: their queues hold its timers
  std::vector<std::unique_ptr<Shard>> shards_;

  struct BoundListener {
    std::string address;
    std::uint16_t port;
  };
  std::vector<BoundListener> bound_;
  std::size_t drained_shards_ = 0;
  bool served_ = false;
  bool draining_ = false;
  bool finished_ = false;
};

}  // namespace pulsewheel
