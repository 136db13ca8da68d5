// Server: the whole daemon. Puts the parts together, hears signals, drains and stops.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "daemon/admin/http_server.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/service_thread.h"
#include "daemon/events/epoch_store.h"
#include "daemon/events/event_log.h"
#include "daemon/events/sequencer.h"
#include "daemon/redis/mirror.h"
#include "daemon/server/event_feed.h"
#include "daemon/server/node_control.h"
#include "daemon/server/node_status.h"
#include "daemon/server/options.h"
#include "daemon/server/passed_sockets.h"
#include "daemon/server/redis_sink.h"
#include "daemon/server/reload.h"
#include "daemon/server/service_manager.h"
#include "daemon/server/shard.h"
#include "daemon/server/snapshotter.h"
#include "daemon/server/start_error.h"
#include "daemon/server/warm_start.h"

namespace pulsewheel {

/// Belongs to the main thread, which blocks all signals before it makes one.
///
/// Start, in this order, because descriptors made before a shard has separated its table are in
/// every table, and those made after are in one: event loops and signal handling; shards start
/// and separate; then logs, Redis, HTTP and listeners are opened.
class Server final : private ShardObserver, private NodeControl {
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
  void bring_users_back();
  [[nodiscard]] std::optional<DeadlineBatch> users_in_ring();
  void drop_old_snapshot();
  void start_shards();
  void start_logs();
  void open_listeners();
  void bind_configured();
  void adopt_passed();
  void start_http();
  void write_ports_file() const;
  void announce() const;
  [[nodiscard]] std::string describe() const;
  void tell_ready();

  void do_wait_signal();
  void on_signal(int signal);
  void reload();
  void take_over(Config next);
  void begin_drain();
  void give_up(const StartError& failure);
  void finish();
  void hold_users();
  void end_sessions();
  void part_with_users();
  void mark_end() noexcept;

  void on_statistics(ShardIndex shard) override;
  void on_drained(ShardIndex shard) override;
  void on_first_session(ShardIndex shard) override;
  void request_drain(std::function<void(DrainReport)> done) override;
  void request_reload(std::function<void(std::optional<ReloadReport>)> done) override;

  Config config_;  // what holds: at the start, and after each reload
  Reloader reloader_;
  PassedSockets passed_;
  NodeFacts facts_;
  std::unique_ptr<EpochStore> epoch_store_;
  std::optional<WarmStart> warm_start_;
  boost::asio::io_context io_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer drain_limit_;
  ServiceManager service_;
  boost::asio::steady_timer drain_request_{io_};
  std::unique_ptr<EventLog> event_log_;
  std::optional<StartError> failure_;      // why this node ends by itself
  std::unique_ptr<ShardRosters> rosters_;  // null with redis.mode = "off", as the next two
  std::unique_ptr<RedisMirror> mirror_;
  std::future<DeadlineBatch> own_users_;  // in Redis, at the start
  std::unique_ptr<RedisSink> redis_sink_;
  std::unique_ptr<Snapshotter> snapshotter_;  // null with snapshot.enabled = false
  ServiceThread snapshot_remover_;            // used instead
  std::unique_ptr<Sequencer> sequencer_;
  std::unique_ptr<NodeStatus> status_;
  std::unique_ptr<EventFeed> event_feed_;  // null without HTTP; outlives it
  std::unique_ptr<HttpServer> http_;       // outlives the shards: their queues hold its timers
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
  bool in_order_ = true;  // nothing went wrong with the users at the end
};

}  // namespace pulsewheel
