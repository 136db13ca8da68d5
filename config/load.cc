// Loading: file, environment and --set, in this order, onto the defaults; then the checks that
// concern more than one key.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "config/config.h"
#include "config/keys.h"
#include "config/suggest.h"
#include "config/toml_document.h"

namespace pulsewheel {
namespace {

constexpr std::size_t kFileBytesMax = 1 << 20;

/// Problems that one message lists; an operator mends the first ones first.
constexpr std::size_t kProblemsMax = 20;

constexpr std::string_view kConfigVariable = "PULSEWHEEL_CONFIG";  // names the file: the caller's
constexpr std::string_view kStateDirectoryVariable = "STATE_DIRECTORY";

/// Variables with our prefix that are not for us: other programs' of the project, and those that
/// Kubernetes and Docker links set in every container beside a service named "pulsewheel".
constexpr std::array<std::string_view, 4> kForeignVariables{
    // pulsewheelctl's: a container's healthcheck has the daemon's environment.
    "PULSEWHEEL_URL", "PULSEWHEEL_TOKEN_FILE", "PULSEWHEEL_UNIX_SOCKET", "PULSEWHEEL_PORT"};
constexpr std::array<std::string_view, 4> kForeignPrefixes{
    "PULSEWHEEL_MODEL_", "PULSEWHEEL_TEST_", "PULSEWHEEL_SERVICE_", "PULSEWHEEL_PORT_"};

/// Keys of which the first must not be greater than the second, unless one of them is off.
struct Order {
  std::string_view lesser;
  std::string_view greater;
};
constexpr std::array kOrders{
    Order{"presence.tick", "presence.timeout_min"},
    Order{"presence.tick", "server.login_timeout"},
    Order{"presence.timeout_min", "presence.timeout"},
    Order{"presence.timeout", "presence.timeout_max"},
    Order{"server.payload_before_login_max", "server.payload_after_login_max"},
    Order{"server.shards", "server.max_connections"},
    Order{"server.tcp_keepalive_idle", "server.tcp_user_timeout"},
};

/// The name of a listener's key, taken apart: "listener.0.port".
struct ListenerName {
  std::size_t index;
  std::string_view leaf;  // empty in "listener.0"
};

std::optional<ListenerName> parse_listener_name(std::string_view name) {
  if (section_of(name) != kListenerSection || name == kListenerSection) return std::nullopt;
  name.remove_prefix(kListenerSection.size() + 1);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc{}) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (name.empty()) return ListenerName{index, name};
  if (name.front() != '.') return std::nullopt;
  return ListenerName{index, name.substr(1)};
}

bool is_section(std::string_view name) {
  const auto all = sections();
  return std::any_of(all.begin(), all.end(), [&](const Section& s) { return s.name == name; });
}

const Key<Config>* find_key(std::string_view name) {
  for (const Key<Config>& key : section_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

/// Whether `value` is the "0s" by which a key is switched off.
bool is_off(const Kind& kind, const Value& value) {
  const auto* const duration = std::get_if<DurationKind>(&kind);
  return duration != nullptr && duration->zero_allowed && value == Value{Config::Duration{0}};
}

bool holds(const Order& order, const Config& config) {
  const Key<Config>& lesser = *find_key(order.lesser);
  const Key<Config>& greater = *find_key(order.greater);
  const Value a = lesser.get(config);
  const Value b = greater.get(config);
  return a <= b || is_off(lesser.kind, a) || is_off(greater.kind, b);
}

/// A known key, bound to the place that it sets.
struct Slot {
  Kind kind;
  std::function<void(const Value&)> set;
};

/// Takes the sources one after the other and collects what is wrong with them.
class Loader {
 public:
  void take_file(const std::string& name, std::string_view text);
  void take_environment(const std::vector<std::pair<std::string, std::string>>& env);
  void take_set(std::string_view set);

  /// systemd's folder is a default: to be taken before everything else.
  void take_state_directory(const std::vector<std::pair<std::string, std::string>>& env);

  /// The text of a file; reports and returns nullopt when there is none to be had.
  std::optional<std::string> read_file(const std::string& name);

  Config finish();

 private:
  void take_table(const TomlEntry& entry, const std::string& where);
  void assign(const std::string& name, const RawValue& raw, const std::string& where);
  void assign_text(const std::string& name, const std::string& text, const std::string& where);
  void store(const Slot& slot, const std::string& name, const RawValue& raw,
             const std::string& where);
  std::optional<Slot> find_slot(const std::string& name, const std::string& where);
  bool open_listener(std::size_t index, const std::string& where);

  void check_orders();
  void check_ports();
  void check_files();
  void check_redis();
  std::string described(std::string_view name, const std::string& value) const;

  void report(const std::string& where, const std::string& what);
  void report_unknown(const std::string& name, const std::string& where);

  Config config_;
  std::map<std::string, std::string, std::less<>> origins_;  // of the keys that were set
  std::set<std::string, std::less<>> rejected_;  // keys whose value is not what somebody wanted
  std::vector<std::string> problems_;
  std::size_t omitted_ = 0;
};

void Loader::report(const std::string& where, const std::string& what) {
  if (problems_.size() < kProblemsMax) {
    std::string line = where + ": " + what;
    // The names of files and variables may hold anything.
    std::replace_if(line.begin(), line.end(), is_control, '?');
    problems_.push_back(std::move(line));
  } else {
    ++omitted_;
  }
}

void Loader::report_unknown(const std::string& name, const std::string& where) {
  if (problems_.size() >= kProblemsMax) {  // no search for the nearest key that nobody will read
    ++omitted_;
    return;
  }
  const bool is_variable = where.starts_with(kVariablePrefix);
  const std::string nearest = is_variable ? nearest_key(name) : "";
  report(where, nearest.empty()
                    ? unknown_key_problem(name)
                    : "unknown variable; did you mean " + variable_of_key(nearest) + "?");
}

std::optional<std::string> Loader::read_file(const std::string& name) {
  // Without O_NONBLOCK the open of a FIFO would wait for a writer.
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    report(name, "cannot open: " + std::generic_category().message(errno));
    return std::nullopt;
  }
  struct stat status {};
  const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  std::string text(regular ? kFileBytesMax + 1 : 0, '\0');
  std::size_t size = 0;
  ssize_t got = 0;
  while (size < text.size() && (got = read(fd, text.data() + size, text.size() - size)) > 0) {
    size += static_cast<std::size_t>(got);
  }
  const int read_errno = got < 0 ? errno : 0;
  close(fd);
  text.resize(size);
  if (!regular) {
    report(name, S_ISDIR(status.st_mode) ? "is a directory; a TOML file is needed"
                                         : "not a regular file; a TOML file is needed");
    return std::nullopt;
  }
  if (read_errno != 0) {
    report(name, "cannot read: " + std::generic_category().message(read_errno));
    return std::nullopt;
  }
  return text;
}

void Loader::take_file(const std::string& name, std::string_view text) {
  if (text.size() > kFileBytesMax) {
    report(name, "larger than 1 MiB");
    return;
  }
  std::vector<TomlEntry> entries;
  try {
    entries = read_toml(text);
  } catch (const TomlSyntaxError& error) {
    report(name + ":" + std::to_string(error.line()) + ":" + std::to_string(error.column()),
           error.what());
    return;
  }
  std::string skipped;  // the members of a table that is itself a problem: "presense."
  for (const TomlEntry& entry : entries) {
    if (!skipped.empty() && entry.name.starts_with(skipped)) continue;
    const std::string where = name + ":" + std::to_string(entry.line);
    const std::size_t problems_before = problems_.size() + omitted_;
    if (entry.value) {
      assign(entry.name, *entry.value, where);
    } else {
      take_table(entry, where);
      if (problems_.size() + omitted_ > problems_before) skipped = entry.name + ".";
    }
  }
}

void Loader::take_table(const TomlEntry& entry, const std::string& where) {
  if (entry.name == kListenerSection) {
    report(where, "listener is an array of tables: write [[listener]]");
    return;
  }
  if (is_section(entry.name)) return;
  const auto listener = parse_listener_name(entry.name);
  if (listener && listener->leaf.empty()) {
    open_listener(listener->index, where);
    return;
  }
  assign(entry.name, ForeignType{"table"}, where);
}

void Loader::take_state_directory(const std::vector<std::pair<std::string, std::string>>& env) {
  for (const auto& [name, value] : env) {
    if (name != kStateDirectoryVariable) continue;
    // systemd joins several folders with colons; the unit's first one is for the state.
    const std::string first = value.substr(0, value.find(':'));
    if (!first.empty()) assign("server.state_dir", first, name);
  }
}

/// The key that a variable sets: presence.tick of "PULSEWHEEL_PRESENCE_TICK". What stands behind
/// the prefix, in small letters, when there is none.
std::string key_of_variable(std::string_view variable) {
  for (const Key<Config>& key : section_keys()) {
    if (variable_of_key(key.name) == variable) return std::string{key.name};
  }
  variable.remove_prefix(kVariablePrefix.size());
  std::string name;
  for (const char c : variable)
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  // LISTENER_0_PORT: only the first two underscores stand for dots.
  if (name.starts_with("listener_")) {
    name[kListenerSection.size()] = '.';
    const std::size_t second = name.find('_', kListenerSection.size() + 1);
    if (second != std::string::npos) name[second] = '.';
  }
  return name;
}

/// Whether a variable is meant to set a key.
bool is_ours(std::string_view variable) {
  if (!variable.starts_with(kVariablePrefix)) return false;
  const auto is_it = [&](std::string_view foreign) { return variable == foreign; };
  const auto begins_it = [&](std::string_view prefix) { return variable.starts_with(prefix); };
  return variable != kConfigVariable &&
         std::none_of(kForeignVariables.begin(), kForeignVariables.end(), is_it) &&
         std::none_of(kForeignPrefixes.begin(), kForeignPrefixes.end(), begins_it);
}

void Loader::take_environment(const std::vector<std::pair<std::string, std::string>>& env) {
  struct Assignment {
    std::string key;
    std::string text;
    std::string where;
  };
  std::vector<Assignment> assignments;
  for (const auto& [name, value] : env) {
    if (!is_ours(name)) continue;
    assignments.push_back({key_of_variable(name), value, name});
  }
  // An environment has no order, but a listener can only be added behind the last one.
  const auto listener_index = [](const Assignment& assignment) {
    const auto listener = parse_listener_name(assignment.key);
    return listener ? listener->index : 0;
  };
  std::stable_sort(assignments.begin(), assignments.end(),
                   [&](const Assignment& a, const Assignment& b) {
                     return listener_index(a) < listener_index(b);
                   });
  for (const Assignment& assignment : assignments) {
    assign_text(assignment.key, assignment.text, assignment.where);
  }
}

std::string trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string{text.substr(begin, text.find_last_not_of(" \t") + 1 - begin)};
}

void Loader::take_set(std::string_view set) {
  const std::size_t equals = set.find('=');
  if (equals == std::string_view::npos) {
    report("--set " + quote_short(set), "no \"=\"; write --set key=value");
    return;
  }
  assign_text(trim(set.substr(0, equals)), trim(set.substr(equals + 1)), "--set");
}

bool Loader::open_listener(std::size_t index, const std::string& where) {
  if (index >= Config::kListenersMax) {
    report(where, "more than " + std::to_string(Config::kListenersMax) + " listeners");
    return false;
  }
  if (index > config_.listeners.size()) {
    const std::string count = std::to_string(config_.listeners.size());
    report(where,
           "listener." + std::to_string(index) + ": the next listener would be listener." + count);
    return false;
  }
  if (index == config_.listeners.size()) config_.listeners.emplace_back();
  return true;
}

std::optional<Slot> Loader::find_slot(const std::string& name, const std::string& where) {
  if (const Key<Config>* key = find_key(name)) {
    return Slot{key->kind, [this, key](const Value& value) { key->set(config_, value); }};
  }
  if (const auto listener = parse_listener_name(name)) {
    for (const Key<Config::Listener>& key : listener_keys()) {
      if (key.name != listener->leaf) continue;
      if (!open_listener(listener->index, where)) return std::nullopt;
      return Slot{key.kind, [this, &key, index = listener->index](const Value& value) {
                    key.set(config_.listeners[index], value);
                  }};
    }
  }
  report_unknown(name, where);
  return std::nullopt;
}

void Loader::store(const Slot& slot, const std::string& name, const RawValue& raw,
                   const std::string& where) {
  const auto parsed = parse_value(slot.kind, raw);
  if (const auto* rejection = std::get_if<Rejection>(&parsed)) {
    rejected_.insert(name);
    const bool printable = !std::holds_alternative<ForeignType>(raw);
    report(where, name + (printable ? " = " + format_raw(raw) : "") + ": " + rejection->reason +
                      "; allowed: " + kind_allowed(slot.kind));
    return;
  }
  slot.set(std::get<Value>(parsed));
  origins_[name] = where;
}

void Loader::assign(const std::string& name, const RawValue& raw, const std::string& where) {
  if (const auto slot = find_slot(name, where)) store(*slot, name, raw, where);
}

void Loader::assign_text(const std::string& name, const std::string& text,
                         const std::string& where) {
  const auto slot = find_slot(name, where);
  if (!slot) return;
  const auto value = read_toml_value(text);
  const bool typed = value && takes_type_of(slot->kind, *value);
  store(*slot, name, typed ? *value : RawValue{text}, where);
}

std::string Loader::described(std::string_view name, const std::string& value) const {
  const auto origin = origins_.find(name);
  return std::string{name} + " = " + value + " (" +
         (origin == origins_.end() ? "the default" : origin->second) + ")";
}

void Loader::check_orders() {
  for (const Order& order : kOrders) {
    if (rejected_.contains(order.lesser) || rejected_.contains(order.greater)) continue;
    if (holds(order, config_)) continue;
    const Key<Config>& lesser = *find_key(order.lesser);
    const Key<Config>& greater = *find_key(order.greater);
    const std::string& where = origins_.contains(order.lesser)
                                   ? origins_.find(order.lesser)->second
                                   : origins_.find(order.greater)->second;
    report(where, described(order.lesser, format_value(lesser.kind, lesser.get(config_))) +
                      " must not be greater than " +
                      described(order.greater, format_value(greater.kind, greater.get(config_))));
  }
}

/// Whether listening on both addresses with one port would clash.
bool overlap(const std::string& a, const std::string& b) {
  const auto covers = [](const std::string& wide, const std::string& other) {
    const bool other_is_v6 = other.find(':') != std::string::npos;
    return wide == "*" || (wide == "::" && other_is_v6) || (wide == "0.0.0.0" && !other_is_v6);
  };
  return a == b || covers(a, b) || covers(b, a);
}

void Loader::check_ports() {
  struct Endpoint {
    std::string name;
    const std::string& address;
    std::uint16_t port;
  };
  std::vector<Endpoint> taken;
  const auto take = [&](const Endpoint& endpoint) {
    if (endpoint.port == 0) return;
    for (const Endpoint& other : taken) {
      if (other.port != endpoint.port || !overlap(other.address, endpoint.address)) continue;
      report(endpoint.name + " and " + other.name,
             "both would listen on port " + std::to_string(endpoint.port));
    }
    taken.push_back(endpoint);
  };
  for (std::size_t i = 0; i < config_.listeners.size(); ++i) {
    const Config::Listener& listener = config_.listeners[i];
    take({"listener." + std::to_string(i), listener.address, listener.port});
  }
  if (config_.http.enabled) take({"http", config_.http.address, config_.http.port});
}

void Loader::check_files() {
  const std::string path = event_log_path(config_);
  if (path.empty()) return;
  if (path == config_.events.offline_path) {
    report("events.path and events.offline_path", "both are " + quote_short(path));
  }
  if (path == config_.log.destination || config_.events.offline_path == config_.log.destination) {
    report("log.destination",
           "is a file of the event log, " + quote_short(config_.log.destination));
  }
}

/// What can be told without knowing Redis; the server checks the rest.
void Loader::check_redis() {
  const Config::Redis& redis = config_.redis;
  if (redis.mode == Config::Redis::Mode::kShared && redis.slots != 32) {
    report("redis.slots",
           "must be 32 with redis.mode = \"shared\": in a ring of 31 a user can stand "
           "in the very slot that the hand reads");
  }
  if (redis.url.find('@') != std::string::npos) {  // not quoted: it may hold a secret
    report("redis.url",
           "must not hold a user or a password: use redis.user and redis.password_file");
  }
}

Config Loader::finish() {
  check_orders();
  check_ports();
  check_files();
  check_redis();
  if (problems_.empty()) return std::move(config_);
  if (omitted_ > 0) problems_.push_back("and " + std::to_string(omitted_) + " more");
  throw ConfigError(std::move(problems_));
}

Config load(const ConfigSource& source, std::optional<std::string_view> text) {
  Loader loader;
  loader.take_state_directory(source.env);
  if (text) {
    loader.take_file(source.file, *text);
  } else if (!source.file.empty()) {
    if (const auto file = loader.read_file(source.file)) loader.take_file(source.file, *file);
  }
  loader.take_environment(source.env);
  for (const std::string& set : source.sets)
    loader.take_set(set);
  return loader.finish();
}

/// "presence.tick = "1s"", and whose value that is in a reload.
std::string described_in_reload(const Key<Config>& key, const Config& merged) {
  return std::string{key.name} + " = " + format_value(key.kind, key.get(merged)) +
         (key.reloadable ? "" : ", which runs until a restart,");
}

}  // namespace

Config apply_reload(const Config& running, const Config& wanted) {
  Config merged = running;
  for (const Key<Config>& key : section_keys()) {
    if (key.reloadable) key.set(merged, key.get(wanted));
  }
  std::vector<std::string> problems;
  for (const Order& order : kOrders) {
    if (holds(order, merged)) continue;
    const Key<Config>& lesser = *find_key(order.lesser);
    const Key<Config>& greater = *find_key(order.greater);
    problems.push_back(described_in_reload(lesser, merged) + " must not be greater than " +
                       described_in_reload(greater, merged));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return merged;
}

Config load_config(const ConfigSource& source) {
  return load(source, std::nullopt);
}

Config load_config_text(std::string_view text, const ConfigSource& source) {
  return load(source, text);
}

}  // namespace pulsewheel
