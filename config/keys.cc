#include "config/keys.h"

#include <array>
#include <type_traits>

namespace pulsewheel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

template <class T>
Value to_value(const T& member) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                std::is_same_v<T, Config::Duration>) {
    return member;
  } else {
    static_assert(std::is_enum_v<T> || std::is_unsigned_v<T>);
    return static_cast<std::int64_t>(member);
  }
}

template <class T>
void assign(T& member, const Value& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                std::is_same_v<T, Config::Duration>) {
    member = std::get<T>(value);
  } else {
    member = static_cast<T>(std::get<std::int64_t>(value));  // the kind's range fits the member
  }
}

/// When a changed value takes effect.
enum class Changes : std::uint8_t { kOnReload, kOnRestart };

template <auto kSection, auto kMember>
constexpr Key<Config> key(std::string_view name, Kind kind, Changes changes, std::string_view doc) {
  return {name,
          kind,
          changes == Changes::kOnReload,
          doc,
          [](const Config& config) { return to_value(config.*kSection.*kMember); },
          [](Config& config, const Value& value) { assign(config.*kSection.*kMember, value); }};
}

template <auto kMember>
constexpr Key<Config::Listener> listener_key(std::string_view name, Kind kind,
                                             std::string_view doc) {
  return {name,
          kind,
          false,
          doc,
          [](const Config::Listener& listener) { return to_value(listener.*kMember); },
          [](Config::Listener& listener, const Value& value) { assign(listener.*kMember, value); }};
}

constexpr auto kOnReload = Changes::kOnReload;
constexpr auto kOnRestart = Changes::kOnRestart;

// Each array follows the order of its enumeration.
constexpr std::array<std::string_view, 3> kFdTablesNames{"auto", "shared", "per-shard"};
constexpr std::array<std::string_view, 1> kProtocolNames{"native"};
constexpr std::array<std::string_view, 2> kOnDisconnectNames{"linger", "offline"};
constexpr std::array<std::string_view, 3> kRedisModeNames{"off", "mirror", "shared"};
constexpr std::array<std::string_view, 4> kLogLevelNames{"debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 2> kLogFormatNames{"human", "json"};

constexpr TextKind kOptionalPath{TextKind::Form::kAny};
constexpr TextKind kOptionalText{TextKind::Form::kAny};
constexpr TextKind kPath{TextKind::Form::kNotEmpty};
constexpr IntegerKind kPort{0, 65'535};
constexpr milliseconds kTimeoutMin{100};
constexpr hours kTimeoutMax{24};
constexpr std::int64_t kPayloadBytesMax = 65'535;  // the length field of a frame has 16 bits
constexpr std::int64_t kMillion = 1'000'000;

constexpr Section kSections[] = {
    {"server", "Connections, threads and limits."},
    {kListenerSection,
     "Where clients connect: 1 to 16 of these tables. One of them in this file replaces the "
     "default one. Sockets that systemd has opened (pulsewheeld.socket) stand for all of them."},
    {"http",
     "The HTTP port for operators: health, metrics, status, users and events. Set token_file "
     "before you let others reach it than the users of this host. It speaks no TLS: on a network "
     "it belongs behind a proxy that does."},
    {"presence", "When a user is online, and when not."},
    {"snapshot",
     "What makes a restart of the daemon no flicker: who is online, with which devices and how "
     "much "
     "time left, and who is remembered as offline, in the file \"snapshot\" of server.state_dir."},
    {"restart", "How the daemon starts behind another run."},
    {"drain", "How the daemon stops (SIGTERM)."},
    {"events",
     "The event log: every online and offline edge as one line of JSON, with uid, reason, time, "
     "epoch and sequence number."},
    {"redis",
     "Presence in Redis, for other programs: a ring of slots in which each online user lies in the "
     "slot of its deadline. Memory decides; Redis follows, and is made equal again after whatever "
     "happened to it."},
    {"log", "The daemon's own log, for people."},
};

using C = Config;

constexpr Key<Config> kSectionKeys[] = {
    key<&C::server, &C::Server::shards>(
        "server.shards", IntegerKind{0, 256}, kOnRestart,
        "Threads that serve connections. 0: one per CPU, and more when max_connections needs more "
        "descriptor tables (see fd_tables); or as many as systemd has passed sockets of one "
        "address."),
    key<&C::server, &C::Server::max_connections>(
        "server.max_connections", IntegerKind{1, 10 * kMillion}, kOnRestart,
        "Connections at once, over all shards. A connection beyond it is told to come back later. "
        "Each needs a descriptor and about 640 bytes of memory."),
    key<&C::server, &C::Server::fd_tables>(
        "server.fd_tables", ChoiceKind{kFdTablesNames}, kOnRestart,
        "Whether shards share the process' table of descriptors. The limit on descriptors "
        "(LimitNOFILE, ulimit -n) holds per table, so \"per-shard\" multiplies it. \"auto\" takes "
        "\"per-shard\" only when max_connections does not fit into one table."),
    key<&C::server, &C::Server::state_dir>(
        "server.state_dir", kPath, kOnRestart,
        "The folder for what must outlive the process; the daemon must be able to write there. "
        "When "
        "systemd sets STATE_DIRECTORY, that folder is the default."),
    key<&C::server, &C::Server::login_timeout>(
        "server.login_timeout", DurationKind{milliseconds{100}, minutes{10}}, kOnReload,
        "How long a connection may take to log in, counted from its accept. A reload "
        "concerns connections that are accepted from then on."),
    key<&C::server, &C::Server::accept_burst>(
        "server.accept_burst", IntegerKind{1, 4'096}, kOnReload,
        "Connections that a shard accepts in one round of its loop, so that a rush of new clients "
        "does not hold up the packets of those that are connected."),
    key<&C::server, &C::Server::loop_handlers_max>(
        "server.loop_handlers_max", IntegerKind{1, kMillion}, kOnReload,
        "Completed reads, writes and messages that a shard handles in one round of its loop before "
        "it turns to its deadlines."),
    key<&C::server, &C::Server::expiry_budget>(
        "server.expiry_budget", IntegerKind{1, kMillion}, kOnReload,
        "Expired deadlines that a shard acts on in one round of its loop. More are left for the "
        "next "
        "one, so that the end of very many users at once does not hold up packets."),
    key<&C::server, &C::Server::backlog_bytes_max>(
        "server.backlog_bytes_max", SizeKind{1'024, 16 << 20}, kOnReload,
        "Bytes that may wait to be sent to one client. A client that does not read and would pass "
        "it is disconnected. A reload holds for what is sent from then on."),
    key<&C::server, &C::Server::write_timeout>(
        "server.write_timeout", DurationKind{milliseconds{100}, minutes{10}}, kOnReload,
        "How long bytes may wait to be sent to one client while its connection takes not one of "
        "them. Then the client is disconnected, at most one tick later, whatever it still sends. "
        "A reload holds for bytes that begin to wait from then on."),
    key<&C::server, &C::Server::payload_before_login_max>(
        "server.payload_before_login_max", SizeKind{64, kPayloadBytesMax}, kOnReload,
        "Largest payload of a frame before the client has logged in. A larger one is refused at "
        "its header. A reload holds for the frames that come from then on."),
    key<&C::server, &C::Server::payload_after_login_max>(
        "server.payload_after_login_max", SizeKind{64, kPayloadBytesMax}, kOnReload,
        "Largest payload of a frame after login. At least payload_before_login_max. A reload holds "
        "for the frames that come from then on."),
    key<&C::server, &C::Server::ports_file>(
        "server.ports_file", kOptionalPath, kOnRestart,
        "A file that receives the bound ports as JSON once all of them listen, for whoever asked "
        "for port 0. Empty: none."),
    key<&C::server, &C::Server::tcp_backlog>(
        "server.tcp_backlog", IntegerKind{1, 65'535}, kOnRestart,
        "Connections that the kernel queues per listening socket until they are accepted. The "
        "kernel caps it at net.core.somaxconn. It holds for sockets that systemd has opened, too."),
    key<&C::server, &C::Server::tcp_user_timeout>(
        "server.tcp_user_timeout", DurationKind{seconds{1}, hours{24}, true}, kOnRestart,
        "How long the host of a client may leave bytes unacknowledged before the kernel gives the "
        "connection up; the user then lingers, as after any lost connection. \"0s\": the kernel's "
        "own limit, about 15 minutes."),
    key<&C::server, &C::Server::tcp_keepalive_idle>(
        "server.tcp_keepalive_idle", DurationKind{seconds{1}, hours{9}, true}, kOnRestart,
        "After how long a silence the kernel asks the host of a client whether it is still there, "
        "four times until tcp_user_timeout. This concerns clients with longer timeouts only: it "
        "frees the connections of hosts that are gone, and keeps NATs from forgetting the others. "
        "At most tcp_user_timeout. \"0s\": never."),

    key<&C::http, &C::Http::enabled>("http.enabled", BoolKind{}, kOnRestart,
                                     "Whether there is an HTTP port at all."),
    key<&C::http, &C::Http::address>("http.address", TextKind{TextKind::Form::kAddress}, kOnRestart,
                                     "The address to listen on."),
    key<&C::http, &C::Http::port>("http.port", kPort, kOnRestart,
                                  "The port to listen on. 0: any free one (see "
                                  "server.ports_file)."),
    key<&C::http, &C::Http::unix_socket>(
        "http.unix_socket", kOptionalPath, kOnRestart,
        "The path of a unix socket to listen on besides, of 107 bytes at most. What a daemon that "
        "was killed left there is replaced; a socket on which somebody listens, or another file, "
        "is not. Requests through it need no token: unix_socket_mode says who may connect. Empty: "
        "none."),
    key<&C::http, &C::Http::unix_socket_mode>(
        "http.unix_socket_mode", TextKind{TextKind::Form::kFileMode}, kOnRestart,
        "Who may connect to the unix socket, as the mode of its file: \"660\" is the user and the "
        "group that the daemon runs as."),
    key<&C::http, &C::Http::token_file>(
        "http.token_file", kOptionalPath, kOnReload,
        "A file with a token of 16 to 1024 letters, digits and -._~+/ that every request over TCP "
        "must carry (Authorization: Bearer TOKEN), but for those to /livez, /readyz and the page "
        "of "
        "the dashboard. A reload reads the file again: from then on the new token counts, and "
        "streams that run, run on. "
        "Empty: whoever can connect is served."),
    key<&C::http, &C::Http::connections_max>(
        "http.connections_max", IntegerKind{1, 10'000}, kOnRestart,
        "Connections to the HTTP port at once, and to the unix socket as many. One more is told so "
        "(503) and closed."),
    key<&C::http, &C::Http::streams_max>(
        "http.streams_max", IntegerKind{0, 100'000}, kOnRestart,
        "Connections, beside connections_max, that follow /v1/events as a stream. One more is told "
        "so (503). At most an eighth of the limit on descriptors. One whose client does not read "
        "may hold 128 KiB in the kernel and 40 KiB in the daemon, and is cut off after a minute "
        "without progress."),
    key<&C::http, &C::Http::event_ring>(
        "http.event_ring", IntegerKind{1'024, 10 * kMillion}, kOnRestart,
        "How many of the newest edges are kept in memory for /v1/events: who comes back and has "
        "missed more is told to take a snapshot. An edge takes about 60 bytes with a uid of 16, "
        "400 bytes once somebody follows, and 1 KiB if uids are as long and odd as can be."),

    key<&C::presence, &C::Presence::tick>(
        "presence.tick", DurationKind{milliseconds{10}, seconds{10}}, kOnRestart,
        "The resolution of all deadlines. A silent user is found offline at the timeout or up to "
        "one tick later, never earlier. A shorter tick wakes the daemon more often. At most "
        "timeout_min and server.login_timeout."),
    key<&C::presence, &C::Presence::timeout>(
        "presence.timeout", DurationKind{kTimeoutMin, kTimeoutMax}, kOnReload,
        "How long after its last packet a user counts as online, when its client wishes for no "
        "keepalive interval of its own. The client is advised to send every two thirds of it. "
        "From timeout_min to timeout_max. A reload of these three keys reaches the sessions that "
        "are "
        "logged in within seconds: each whose timeout is now another one is told so (SETTINGS). A "
        "longer one counts from its last packet; a shorter one from the moment it is told, until "
        "its "
        "next packet. Users who linger keep their deadline."),
    key<&C::presence, &C::Presence::timeout_min>(
        "presence.timeout_min", DurationKind{kTimeoutMin, kTimeoutMax}, kOnReload,
        "The shortest timeout that a client can get. A client that wishes for an interval gets one "
        "and a half times that interval, or this. "
        "A reload: see timeout."),
    key<&C::presence, &C::Presence::timeout_max>(
        "presence.timeout_max", DurationKind{kTimeoutMin, kTimeoutMax}, kOnReload,
        "The longest timeout that a client can get. A reload: see timeout."),
    key<&C::presence, &C::Presence::on_disconnect>(
        "presence.on_disconnect", ChoiceKind{kOnDisconnectNames}, kOnReload,
        "What the end of a connection without a logout means. \"linger\": the user stays online "
        "until the timeout, time to come back. \"offline\": the user is offline at once, but for "
        "those "
        "whom a stop with snapshots sends away. A reload concerns connections that end from then "
        "on; "
        "who lingers lingers on."),
    key<&C::presence, &C::Presence::offline_retention>(
        "presence.offline_retention", DurationKind{seconds{0}, hours{24 * 30}}, kOnReload,
        "How long an offline user is remembered, with the time when it was last seen. A reload "
        "holds for those who are remembered already, too."),
    key<&C::presence, &C::Presence::offline_users_max>(
        "presence.offline_users_max", IntegerKind{0, 100 * kMillion}, kOnReload,
        "Offline users remembered, over all shards. Beyond it the oldest ones are forgotten, "
        "after a reload a few at a time."),
    key<&C::presence, &C::Presence::sessions_per_user_max>(
        "presence.sessions_per_user_max", IntegerKind{1, 1'000}, kOnReload,
        "Connections of one user at once. A login beyond it is refused; one with the label of a "
        "device that is connected takes over that connection. A reload ends no connection."),
    key<&C::presence, &C::Presence::users_max>(
        "presence.users_max", IntegerKind{0, 20 * kMillion}, kOnReload,
        "Online users at once, over all shards; a login beyond it is refused. 0: twice "
        "server.max_connections, since a user whose connection ended may linger. A reload takes "
        "nobody offline."),

    key<&C::snapshot, &C::Snapshot::enabled>(
        "snapshot.enabled", BoolKind{}, kOnRestart,
        "Whether snapshots are written. With them a stop (SIGTERM) tells nobody to be offline: the "
        "next start brings the users back. Without them a stop makes everybody offline, with "
        "reason "
        "\"shutdown\". A snapshot that lies there at the start is used in either case."),
    key<&C::snapshot, &C::Snapshot::interval>(
        "snapshot.interval", DurationKind{milliseconds{100}, hours{24}, true}, kOnReload,
        "How often one is written while anybody is connected or anything changes; the next start "
        "uses the last one if the daemon is killed or crashes. Each takes 36 bytes a user on disk, "
        "and about a microsecond of the processors. \"0s\": only at the end of a stop."),

    key<&C::restart, &C::Restart::grace>(
        "restart.grace", DurationKind{seconds{0}, hours{24}}, kOnRestart,
        "Time for those who were online to come back. Users from a snapshot stay online for what "
        "was "
        "left of their timeout, and for this on top; who comes back meanwhile makes no edge. When "
        "the run before this one was killed or crashed, a user of whom nothing newer is known than "
        "its last snapshot is \"unknown\" for so long instead of \"offline\". At least the timeout "
        "that most clients have."),

    key<&C::drain, &C::Drain::window>(
        "drain.window", DurationKind{seconds{0}, minutes{10}}, kOnReload,
        "The time over which the connections are closed, so that the clients do not all come back "
        "at once elsewhere."),
    key<&C::drain, &C::Drain::retry_after>(
        "drain.retry_after", DurationKind{seconds{0}, hours{1}}, kOnReload,
        "What a client is told to wait before it connects again. Each gets a little more or less "
        "than that."),

    key<&C::events, &C::Events::enabled>("events.enabled", BoolKind{}, kOnRestart,
                                         "Whether there is an event log at all."),
    key<&C::events, &C::Events::path>(
        "events.path", kOptionalPath,
        kOnRestart,
        "The file that the edges are appended to. Empty: events.jsonl in server.state_dir."),
    key<&C::events, &C::Events::offline_path>(
        "events.offline_path", kOptionalPath,
        kOnRestart, "When set, offline edges go to this file and only online edges to path."),
    key<&C::events, &C::Events::rotate_size>(
        "events.rotate_size", SizeKind{4'096, std::int64_t{1} << 40}, kOnReload,
        "A file that has grown past this is renamed to .1, an older .1 to .2, and so on."),
    key<&C::events, &C::Events::rotate_keep>(
        "events.rotate_keep", IntegerKind{0, 100}, kOnReload,
        "Renamed files that are kept; older ones are deleted. "
        "0: a file that is full starts over. Those kept under a greater number stay after a "
        "reload."),
    key<&C::events, &C::Events::queue_max>(
        "events.queue_max", IntegerKind{1, 100 * kMillion}, kOnRestart,
        "Edges that may wait for a slow disk. Those beyond it are dropped and counted; presence "
        "itself goes on."),

    key<&C::redis, &C::Redis::mode>(
        "redis.mode", ChoiceKind{kRedisModeNames}, kOnRestart,
        "\"off\": no Redis. \"mirror\": the daemon writes and others read. \"shared\": other nodes "
        "and "
        "other writers put users into the same ring, and whoever comes first, of all nodes, takes "
        "those out whose time is over and whom no node holds."),
    key<&C::redis, &C::Redis::url>(
        "redis.url", kPath, kOnRestart,
        "Where Redis is: redis://HOST[:PORT][/DATABASE], rediss:// for TLS, or "
        "unix:///PATH[?db=DATABASE]. No user and no password: this text is printed and logged."),
    key<&C::redis, &C::Redis::user>("redis.user", kOptionalText, kOnRestart,
                                    "The user for AUTH. Empty: the default one."),
    key<&C::redis, &C::Redis::password_file>(
        "redis.password_file", kOptionalPath, kOnRestart,
        "A file that holds the password for AUTH. It is read for each connection, and a reload "
        "makes "
        "the next attempt to connect at once: so a new password in it works after a reload."),
    key<&C::redis, &C::Redis::password_env>(
        "redis.password_env", kOptionalText, kOnRestart,
        "The name of an environment variable that holds the password, where there is no "
        "password_file."),
    key<&C::redis, &C::Redis::ca_file>(
        "redis.ca_file", kOptionalPath, kOnRestart,
        "With rediss://, the authorities that the server's certificate is checked against, as "
        "PEM. Empty: the system's."),
    key<&C::redis, &C::Redis::cert_file>(
        "redis.cert_file", kOptionalPath, kOnRestart,
        "With rediss://, our own certificate, for servers that want one."),
    key<&C::redis, &C::Redis::key_file>("redis.key_file", kOptionalPath, kOnRestart,
                                        "The private key of cert_file."),
    key<&C::redis, &C::Redis::node>(
        "redis.node", kOptionalText, kOnRestart,
        "The name under which this node holds users: letters, digits, '.', '_' and '-', at most "
        "64. "
        "Each node of one Redis needs its own. Empty: the name of the host."),
    key<&C::redis, &C::Redis::list_key>(
        "redis.list_key", kPath, kOnRestart,
        "The LIST of the slots' names. It is created where there is none; one that is there is "
        "used "
        "as it is, and left alone if it has another length."),
    key<&C::redis, &C::Redis::slot_prefix>(
        "redis.slot_prefix", kPath, kOnRestart,
        "What the names of the slots begin with in a list that we create: each slot is a SET of "
        "the "
        "uids that expire when the hand reaches it."),
    key<&C::redis, &C::Redis::slots>(
        "redis.slots", IntegerKind{31, 32}, kOnRestart,
        "Length of the ring, one slot a second. 31, as in the documented design, hold timeouts of "
        "up to 29 s: a reader that looks at no deadline sees longer ones end early."),
    key<&C::redis, &C::Redis::index_key>("redis.index_key", kPath, kOnRestart,
                                         "The HASH from a uid to its slot: who is in it is "
                                         "online."),
    key<&C::redis, &C::Redis::key_prefix>(
        "redis.key_prefix", kOptionalText, kOnRestart,
        "What the names of our other keys begin with: deadline, owners, events, node:NAME. With "
        "one hash tag in all names, as in \"{pw}:\", they lie together in a cluster."),
    key<&C::redis, &C::Redis::stream_max>("redis.stream_max", IntegerKind{1'000, 100 * kMillion},
                                          kOnRestart,
                                          "About how many edges the stream of events keeps."),
    key<&C::redis, &C::Redis::connect_timeout>(
        "redis.connect_timeout", DurationKind{milliseconds{100}, minutes{1}}, kOnRestart,
        "How long an attempt to connect may take, up to the answer to a PING."),
    key<&C::redis, &C::Redis::command_timeout>(
        "redis.command_timeout", DurationKind{milliseconds{100}, minutes{1}}, kOnRestart,
        "How long an answer may take. Then the connection is given up and made anew."),
    key<&C::redis, &C::Redis::batch_max>(
        "redis.batch_max", IntegerKind{1, 256}, kOnRestart,
        "Users in one call of a script, during which Redis serves nobody else."),
    key<&C::redis, &C::Redis::queue_max>(
        "redis.queue_max", IntegerKind{1'000, 100 * kMillion}, kOnRestart,
        "Changes that may wait for a slow Redis, at most one deadline and the edges of each user. "
        "What comes beyond it is dropped, counted and repaired later; presence itself goes on."),
    key<&C::redis, &C::Redis::repair_rate>(
        "redis.repair_rate", IntegerKind{100, 10 * kMillion}, kOnRestart,
        "Users compared with Redis in a second, after a connection was made, data were flushed or "
        "something was lost."),

    key<&C::log, &C::Log::level>("log.level", ChoiceKind{kLogLevelNames}, kOnReload,
                                 "The least severe lines that are written."),
    key<&C::log, &C::Log::format>("log.format", ChoiceKind{kLogFormatNames}, kOnRestart,
                                  "One line of text, or one line of JSON."),
    key<&C::log, &C::Log::destination>("log.destination", kPath, kOnRestart,
                                       "\"stderr\", or the path of a file that is appended to and "
                                       "opened again on SIGUSR1."),
    key<&C::log, &C::Log::rate_limit>(
        "log.rate_limit", IntegerKind{0, kMillion}, kOnReload,
        "Lines of one kind in a second; more are counted instead. 0: no limit."),
    key<&C::log, &C::Log::stats_interval>(
        "log.stats_interval", DurationKind{seconds{1}, hours{24}, true}, kOnReload,
        "How often a line with figures is written while anybody is connected. \"0s\": never."),
};

using L = Config::Listener;

constexpr Key<Config::Listener> kListenerKeys[] = {
    listener_key<&L::address>("address", TextKind{TextKind::Form::kAddressOrStar},
                              "The address to listen on. \"*\": every IPv4 and IPv6 address."),
    listener_key<&L::port>("port", kPort,
                           "The port to listen on. 0: any free one (see server.ports_file)."),
    listener_key<&L::protocol>("protocol", ChoiceKind{kProtocolNames},
                               "What clients speak there. \"native\": see proto/PROTOCOL.md."),
};

}  // namespace

std::span<const Section> sections() noexcept {
  return kSections;
}
std::span<const Key<Config>> section_keys() noexcept {
  return kSectionKeys;
}
std::span<const Key<Config::Listener>> listener_keys() noexcept {
  return kListenerKeys;
}

}  // namespace pulsewheel
