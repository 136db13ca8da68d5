#include "daemon/server/server.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "daemon/admin/dashboard.h"
#include "daemon/admin/event_routes.h"
#include "daemon/admin/routes.h"
#include "daemon/base/build_info.h"
#include "daemon/base/endpoint_text.h"
#include "daemon/base/log.h"
#include "daemon/base/thread.h"
#include "proto/frame.h"

namespace pulsewheel {
namespace {

using boost::asio::ip::tcp;

/// How long after the drain window the last clients may take to read their GOAWAY.
constexpr std::chrono::seconds kDrainSlack{5};

/// Unlimited: a node with many listeners says more at its start than a limit lets through in a
/// second, and the warnings come last.
constexpr log::Kind kStart = log::Kind::unlimited("start");

/// Whether threads may have descriptor tables of their own here: seccomp may forbid it.
std::error_code probe_separation() {
  std::error_code error;
  std::thread([&error] {
    block_all_signals_in_this_thread();
    error = separate_descriptor_table(highest_open_descriptor() + 1);
  }).join();
  return error;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
    throw StartError(ExitCode::kOs, "cannot get random bytes from the kernel");
  }
  return seed;
}

/// With SO_REUSEPORT a second daemon of the same user could share the port unnoticed. A socket
/// without it is refused if anybody listens.
void check_port_is_free(const tcp::endpoint& endpoint) {
  boost::asio::io_context io;
  tcp::acceptor probe(io, endpoint.protocol());
  probe.set_option(boost::asio::socket_base::reuse_address(true));
  if (endpoint.address().is_v6()) probe.set_option(boost::asio::ip::v6_only(true));
  probe.bind(endpoint);
}

bool is_loopback(const std::string& address) {
  return boost::asio::ip::make_address(address).is_loopback();
}

bool has_ipv6() {
  boost::asio::io_context io;
  tcp::acceptor probe(io);
  boost::system::error_code error;
  probe.open(tcp::v6(), error);
  if (!error) probe.bind({boost::asio::ip::address_v6::loopback(), 0}, error);
  return !error;
}

std::vector<tcp::endpoint> endpoints_of(const Config::Listener& listener) {
  if (listener.address != "*") {
    return {{boost::asio::ip::make_address(listener.address), listener.port}};
  }
  std::vector<tcp::endpoint> both{{boost::asio::ip::address_v4::any(), listener.port}};
  if (has_ipv6()) both.emplace_back(boost::asio::ip::address_v6::any(), listener.port);
  return both;
}

}  // namespace

Server::Server(Config config, ConfigSource source)
    : config_(std::move(config)),
      reloader_(std::move(source), config_),
      passed_(PassedSockets::take()),
      signals_(io_),
      drain_limit_(io_),
      service_(io_, [this] { return describe(); }) {
  plan();
  try {
    epoch_store_ = std::make_unique<EpochStore>(config_.server.state_dir);
  } catch (const std::exception& error) {
    throw StartError(ExitCode::kCannotCreate, error.what());
  }
  make_shards();
  if (uses_redis(config_)) make_mirror();
}

Server::~Server() {
  finish();
}

void Server::plan() {
  const std::uint64_t limit = raise_descriptor_limit();
  const auto inherited = static_cast<std::uint64_t>(highest_open_descriptor()) + 1;
  DescriptorRequest request = descriptor_request(config_, limit, inherited);
  if (const auto shards = shards_for(passed_.listeners(), config_.server.shards); shards != 0) {
    request.shards_wanted = shards;
  }
  facts_.plan = plan_descriptor_tables(request);
  facts_.http_streams_max = http_streams_max(config_, limit);
  if (facts_.plan.per_shard) {
    if (const std::error_code error = probe_separation()) {
      log::warn("descriptors", "no descriptor tables per shard here ({}): sharing one",
                error.message());
      request.mode = DescriptorTables::kShared;
      facts_.plan = plan_descriptor_tables(request);
    }
  }
  if (facts_.plan.max_connections == 0) {
    throw StartError(ExitCode::kOs, "the limit of " + std::to_string(limit) +
                                        " descriptors is too low to serve anybody: at least " +
                                        std::to_string(request.reserve + 1) +
                                        " are needed (LimitNOFILE, ulimit -n)");
  }
  check_listeners(passed_.listeners(), facts_.plan.shards, facts_.plan.reason);
  reserve_descriptor_table(request.reserve +
                           (facts_.plan.per_shard ? 0 : facts_.plan.max_connections));
}

void Server::make_shards() {
  facts_.epoch = epoch_store_->epoch();
  facts_.hash_seed = random_seed();
  facts_.origin = MonoClock::now();
  warm_start_.emplace(*epoch_store_);
  facts_.first_seq = warm_start_->first_seq();
  facts_.continued_epoch = warm_start_->continued_epoch();
  if (warm_start_->something_is_unknown()) {
    facts_.grace_end = facts_.origin + config_.restart.grace;
  }
  sequencer_ = std::make_unique<Sequencer>(
      Sequencer::Options{.shards = facts_.plan.shards,
                         .epoch = facts_.epoch,
                         .first_seq = facts_.first_seq,
                         .edges_in_flight_max = config_.events.queue_max});
  ShardObserver& observer = *this;
  std::vector<Shard*> peers;
  for (std::uint32_t i = 0; i < facts_.plan.shards; ++i) {
    const auto options = shard_options(config_, facts_, static_cast<ShardIndex>(i));
    shards_.push_back(std::make_unique<Shard>(options, *sequencer_, observer));
    peers.push_back(shards_.back().get());
  }
  for (auto& shard : shards_)
    shard->connect(peers);
  if (config_.snapshot.enabled) {
    snapshotter_ =
        std::make_unique<Snapshotter>(snapshot_options(config_, *epoch_store_), peers, *sequencer_);
  }
  status_ = std::make_unique<NodeStatus>(peers, *sequencer_, facts_, config_.presence.tick);
  if (config_.http.enabled) {
    event_feed_ = std::make_unique<EventFeed>(event_ring_options(config_, facts_));
    ApiTable api = api_routes(*status_);
    add_event_routes(api, *event_feed_);
    Router routes = make_router(std::move(api));
    add_dashboard_routes(routes);
    HttpServer::Options options = http_options(config_, facts_);
    options.token = reloader_.http_token();
    http_ = std::make_unique<HttpServer>(std::move(options), std::move(routes));
    event_feed_->attach(http_->executor());
    status_->attach(*event_feed_);
  }
}

void Server::make_mirror() {
  MirrorOptions options = mirror_options(config_, facts_);
  options.on_claimed = [this](std::vector<std::string> uids) { report_offline(std::move(uids)); };
  options.on_name_in_use = [this](const std::string& what) {
    boost::asio::post(io_, [this, what] { give_up({ExitCode::kUnavailable, what}); });
  };
  const auto own_users = std::make_shared<std::promise<DeadlineBatch>>();
  own_users_ = own_users->get_future();
  options.on_own_users = [own_users](DeadlineBatch users) {
    own_users->set_value(std::move(users));
  };
  std::vector<Shard*> shards;
  for (auto& shard : shards_)
    shards.push_back(shard.get());
  rosters_ = std::make_unique<ShardRosters>(std::move(shards));
  mirror_ = std::make_unique<RedisMirror>(options, *rosters_);
  redis_sink_ = std::make_unique<RedisSink>(*mirror_);
}

/// On the mirror's thread. Each user's home shard has the last word, so that its edges come in
/// order.
void Server::report_offline(std::vector<std::string> uids) {
  std::vector<std::vector<std::string>> by_home(shards_.size());
  for (std::string& uid : uids) {
    // Others may write into the ring what they like.
    if (uid.empty() || uid.size() > proto::kUidSizeMax) continue;
    by_home[home_shard_of(uid, facts_.hash_seed, shards_.size())].push_back(std::move(uid));
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (by_home[i].empty()) continue;
    shards_[i]->post([&shard = *shards_[i], users = std::move(by_home[i])] {
      for (const std::string& uid : users)
        shard.report_offline(uid);
    });
  }
}

// --- Start --------------------------------------------------------------------------------------

void Server::run() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1})
    signals_.add(signal);
  start_shards();
  start_logs();
  // Before anybody can ask: an answer about a user who is still to come back would be wrong.
  bring_users_back();
  start_http();
  open_listeners();
  status_->set_phase(NodeStatus::Phase::kServing);
  write_ports_file();
  announce();
  tell_ready();
  served_ = true;
  // Of all users, and of a run that serves: until now the one before it is the better one.
  if (snapshotter_) snapshotter_->start();
  // It is true for a moment only, and there will be no other one.
  if (!snapshotter_) drop_old_snapshot();
  do_wait_signal();
  unblock_all_signals_in_this_thread();
  io_.run();
  // From here on nobody waits for them, and none may cut short what is left to be done.
  block_all_signals_in_this_thread();
  if (failure_) throw StartError(*failure_);
}

/// After the shards have separated: a file opened before would stay open in their tables.
void Server::start_logs() {
  try {
    log::start_thread();
  } catch (const std::exception& error) {
    throw StartError(ExitCode::kCannotCreate, error.what());
  }
  std::vector<EdgeSink*> sinks;
  if (event_feed_) sinks.push_back(&event_feed_->sink());
  if (const auto options = event_log_options(config_); !options.path.empty()) {
    try {
      event_log_ = std::make_unique<EventLog>(options);
    } catch (const std::exception& error) {
      throw StartError(ExitCode::kCannotCreate, error.what());
    }
    sinks.push_back(event_log_.get());
  }
  if (mirror_) {
    mirror_->start();
    sinks.push_back(redis_sink_.get());
  }
  if (snapshotter_) sinks.push_back(snapshotter_.get());
  sequencer_->start(sinks);
}

void Server::start_shards() {
  const int first_private = highest_open_descriptor() + 1;
  std::vector<std::future<std::error_code>> outcomes;
  for (auto& shard : shards_) {
    auto outcome = std::make_shared<std::promise<std::error_code>>();
    outcomes.push_back(outcome->get_future());
    shard->start(first_private, [outcome](std::error_code error) { outcome->set_value(error); });
  }
  std::error_code failed;
  for (auto& outcome : outcomes) {
    if (const std::error_code error = outcome.get()) failed = error;
  }
  if (failed) {
    throw StartError(ExitCode::kOs, "a shard cannot have its own descriptor table (" +
                                        failed.message() + "); set server.fd_tables = \"shared\"");
  }
  reloader_.reserve_descriptor();
}

void Server::open_listeners() {
  passed_.listeners().empty() ? bind_configured() : adopt_passed();
  for (auto& shard : shards_) {
    shard->call([&] { shard->listen(static_cast<int>(config_.server.tcp_backlog)); });
  }
}

void Server::bind_configured() {
  for (const Config::Listener& listener : config_.listeners) {
    for (tcp::endpoint endpoint : endpoints_of(listener)) {
      // "*" with port 0: IPv6 takes the port that IPv4 got.
      if (listener.port == 0 && endpoint.address().is_v6() && listener.address == "*") {
        endpoint.port(bound_.back().port);
      }
      try {
        check_port_is_free(endpoint);
        for (auto& shard : shards_) {
          shard->call([&] { endpoint.port(shard->bind(endpoint)); });
        }
      } catch (const boost::system::system_error& error) {
        throw StartError(ExitCode::kUnavailable,
                         "cannot listen on " + to_text(endpoint) + ": " + error.code().message());
      }
      bound_.push_back({endpoint.address().to_string(), endpoint.port()});
    }
  }
}

/// The passed sockets stand for all of [[listener]].
void Server::adopt_passed() {
  for (const PassedListener& listener : passed_.listeners()) {
    const bool shared = listener.descriptors.size() < shards_.size();
    try {
      for (std::size_t i = 0; i < shards_.size(); ++i) {
        shards_[i]->call([&, i] { shards_[i]->adopt(listener.descriptor_of(i), shared); });
      }
    } catch (const boost::system::system_error& error) {
      throw StartError(ExitCode::kOs, "cannot use the socket passed for " +
                                          to_text(listener.endpoint) + ": " +
                                          error.code().message());
    }
    bound_.push_back({listener.endpoint.address().to_string(), listener.endpoint.port()});
  }
  passed_.close_inherited();
  if (!facts_.plan.per_shard) return;
  for (auto& shard : shards_)
    shard->call([this] { passed_.close_inherited(); });
}

void Server::start_http() {
  if (!http_) return;
  if (snapshotter_) status_->attach(std::as_const(*snapshotter_).counters());
  status_->attach(*http_, *this, event_log_.get(), mirror_.get(), reloader_.counters());
  try {
    http_->start();
  } catch (const std::exception& error) {
    throw StartError(ExitCode::kUnavailable, error.what());
  }
}

/// Written whole under another name and renamed: whoever waits for the file finds it complete.
void Server::write_ports_file() const {
  const std::string& path = config_.server.ports_file;
  if (path.empty()) return;
  nlohmann::json ports{{"pid", ::getpid()}, {"listeners", nlohmann::json::array()}};
  for (const BoundListener& bound : bound_) {
    ports["listeners"].push_back(
        {{"address", bound.address}, {"port", bound.port}, {"protocol", "native"}});
  }
  if (http_) {
    ports["http"] = {{"address", config_.http.address}, {"port", http_->port()}};
    if (!config_.http.unix_socket.empty()) ports["http"]["unix_socket"] = config_.http.unix_socket;
  }
  const std::string temporary = path + ".new";
  std::ofstream(temporary) << ports.dump() << '\n';
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw StartError(ExitCode::kCannotCreate, "cannot write server.ports_file " + path + ": " +
                                                  std::generic_category().message(errno));
  }
}

void Server::announce() const {
  log::info(kStart, "pulsewheeld {}, epoch {}: {}", build_info().version, epoch_store_->epoch(),
            facts_.plan.reason);
  if (warm_start_->something_is_unknown()) {
    log::warn(kStart,
              "the run before this one did not stop in order, or its snapshot is no good: users of "
              "whom nothing is known are "
              "unknown for {} s (restart.grace)",
              to_seconds(config_.restart.grace));
  }
  for (const BoundListener& bound : bound_) {
    log::info(kStart, "clients: {} port {}", bound.address, bound.port);
  }
  for (const PassedListener& listener : passed_.listeners()) {
    log::info(kStart, "{} was passed to the daemon in place of [[listener]]: {}",
              to_text(listener.endpoint),
              listener.descriptors.size() == shards_.size() ? "one socket for each shard"
                                                            : "one socket, shared by all shards");
  }
  if (http_) {
    log::info(kStart, "HTTP: http://{}:{}/v1/status", config_.http.address, http_->port());
    if (!config_.http.unix_socket.empty()) {
      log::info(kStart, "HTTP: unix socket {}", config_.http.unix_socket);
    }
    if (config_.http.token_file.empty() && !is_loopback(config_.http.address)) {
      log::warn(kStart, "whoever reaches the HTTP port may do everything: set http.token_file");
    }
  }
}

std::string Server::describe() const {
  const NodeTotals totals = status_->totals();
  std::string text = draining_ ? "draining" : "serving";
  text += ": " + std::to_string(totals.connections) + " connections, " +
          std::to_string(totals.users_online) + " users online";
  if (reloader_.counters().last_successful.value() == 0) {
    text += "; the last reload failed (see the log), the configuration before it holds";
  }
  return text;
}

void Server::tell_ready() {
  std::vector<Watchdog::Worker> shards;
  for (auto& shard : shards_) {
    shards.emplace_back(
        [&shard = *shard](std::function<void()> task) { shard.post(std::move(task)); });
  }
  service_.ready(std::move(shards));
}

// --- Signals and the end ------------------------------------------------------------------------

void Server::do_wait_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    on_signal(signal);
    if (!finished_) do_wait_signal();
  });
}

void Server::on_signal(int signal) {
  switch (signal) {
    case SIGUSR1:
      log::reopen();
      if (event_log_) event_log_->reopen();
      log::info("signal", "log files opened again");
      break;
    case SIGHUP:
      reload();
      break;
    default:
      if (draining_) {
        log::warn("signal", "second signal: stopping now");
        finish();
      } else {
        begin_drain();
      }
  }
}

void Server::reload() {
  if (draining_) return log::warn("signal", "HUP while stopping: the configuration stays");
  service_.reloading();
  reloader_.reload(config_, [this](Config next) { take_over(std::move(next)); });
  service_.reloaded();
}

/// Each shard takes the new options over on its own thread, between two rounds; nothing stops.
void Server::take_over(Config next) {
  config_ = std::move(next);
  const log::Options log = log_options(config_);
  log::set_level(log.level);
  log::set_lines_per_second_max(log.lines_per_second_max);
  if (http_) http_->set_token(reloader_.http_token());
  if (mirror_) mirror_->retry_now();
  if (snapshotter_) snapshotter_->set_interval(config_.snapshot.interval);
  if (event_log_) event_log_->set_rotation(config_.events.rotate_size, config_.events.rotate_keep);
  for (auto& shard : shards_) {
    shard->post(
        [&shard = *shard, options = shard_options(config_, facts_, shard->options().index)] {
          shard.change(options);
        });
  }
}

void Server::begin_drain() {
  draining_ = true;
  status_->set_phase(NodeStatus::Phase::kDraining);
  const auto window = config_.drain.window;
  if (mirror_) mirror_->leave_hand();
  log::info("drain", "{} connections leave within {} s", status_->totals().connections,
            to_seconds(window));
  service_.draining();
  if (snapshotter_) hold_users();
  for (auto& shard : shards_) {
    shard->post([&shard = *shard, window] { shard.drain(window); });
  }
  drain_limit_.expires_after(window + kDrainSlack);
  drain_limit_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    log::warn("drain", "{} connections did not leave in time", status_->totals().connections);
    finish();
  });
}

/// In order, but at once.
void Server::give_up(const StartError& failure) {
  if (finished_ || draining_) return;
  failure_ = failure;
  draining_ = true;
  status_->set_phase(NodeStatus::Phase::kDraining);
  finish();
}

void Server::on_drained(ShardIndex /*shard*/) {
  boost::asio::post(io_, [this] {
    if (++drained_shards_ == shards_.size()) finish();
  });
}

void Server::on_statistics(ShardIndex shard) {
  // Each shard with sessions asks in turn; the first of them speaks for the node.
  for (ShardIndex i = 0; i < shard; ++i) {
    if (shards_[i]->counters().sessions.sessions.value() > 0) return;
  }
  const NodeTotals totals = status_->totals();
  log::info("statistics",
            "{} connections, {} users online ({} lingering), {} logins, {} keepalives, "
            "{} messages, {} online and {} offline edges",
            totals.connections, totals.users_online, totals.users_lingering, totals.logins,
            totals.keepalives, totals.messages, totals.edges_online, totals.edges_offline);
}

void Server::on_first_session(ShardIndex /*shard*/) {
  if (snapshotter_) snapshotter_->note_client();
}

void Server::finish() {
  if (std::exchange(finished_, true)) return;
  service_.finishing();
  drain_limit_.cancel();
  drain_request_.cancel();
  signals_.cancel();
  if (http_) http_->stop();
  if (draining_ && snapshotter_) end_sessions();
  if (snapshotter_) snapshotter_->leave();
  for (auto& shard : shards_)
    shard->stop();
  static_cast<void>(snapshot_remover_.join_within(Snapshotter::kLastLimit));
  if (draining_) part_with_users();
  if (snapshotter_) snapshotter_->end();
  sequencer_->stop();
  if (mirror_) mirror_->stop();
  event_log_.reset();
  if (!config_.server.ports_file.empty()) ::unlink(config_.server.ports_file.c_str());
  mark_end();
  if (draining_) log::info("stop", "stopped");
  io_.stop();
}

/// A run that served nobody leaves things as it found them.
void Server::mark_end() noexcept {
  const bool in_order = served_ ? draining_ : !epoch_store_->after_crash();
  if (!in_order || !in_order_) return;
  try {
    epoch_store_->mark_end();
  } catch (const std::exception& error) {
    log::error("stop", "{}; the next start will take this one for a crash", error.what());
  }
}

}  // namespace pulsewheel
