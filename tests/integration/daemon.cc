#include "tests/integration/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "tests/integration/client.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

/// What the child does before it becomes the daemon.
std::function<void()> preparation(const Daemon::Options& options) {
  return [&options] {
    if (options.descriptor_limit != 0) {
      const rlimit limit{options.descriptor_limit, options.descriptor_limit};
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (options.in_child) options.in_child();
  };
}

}  // namespace

Ended run_program(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const int exit_code = ChildProcess(arguments, folder / "log").wait();
  return {exit_code, read_file(folder / "log")};
}

std::vector<std::string> Daemon::arguments(const Options& options, const Files& files) {
  std::vector<std::string> all = options.wrapper;
  all.emplace_back(PULSEWHEELD_PATH);
  all.insert(all.end(), options.arguments.begin(), options.arguments.end());
  const auto set = [&all](const std::string& pair) { all.insert(all.end(), {"--set", pair}); };
  set("listener.0.address=127.0.0.1");
  set("listener.0.port=0");
  set("http.port=0");
  set("server.state_dir=" + files.state_dir);
  set("server.ports_file=" + files.ports);
  if (!options.config.empty()) {
    write_file(files.config, options.config);
    all.insert(all.end(), {"--config", files.config});
  } else {
    for (const char* quick : kQuick)
      set(quick);
  }
  for (const std::string& pair : options.sets)
    set(pair);
  return all;
}

Daemon::Daemon(Options options)
    : state_dir_(options.state_dir.empty() ? folder_ / "state" : options.state_dir) {
  const std::string ports_file = folder_ / "ports";
  process_.emplace(arguments(options, {state_dir_, ports_file, config_file()}), folder_ / "log",
                   preparation(options));
  const bool listens = eventually(
      [&] { return !process_->is_running() || ::access(ports_file.c_str(), R_OK) == 0; });
  if (!listens || !process_->is_running())
    throw std::runtime_error("the daemon did not start: " + log());
  const auto ports = nlohmann::json::parse(read_file(ports_file));
  port_ = ports.at("listeners").at(0).at("port");
  http_port_ = ports.at("http").at("port");
}

Ended Daemon::run_to_end(Options options) {
  const TemporaryFolder folder;
  const Files files{options.state_dir.empty() ? folder / "state" : options.state_dir,
                    folder / "ports", folder / "pulsewheel.toml"};
  const int exit_code =
      ChildProcess(arguments(options, files), folder / "log", preparation(options)).wait();
  return {exit_code, read_file(folder / "log")};
}

std::vector<nlohmann::json> Daemon::edges(const std::string& file) const {
  std::vector<nlohmann::json> edges;
  const std::string text = read_file(state_dir_ + "/" + file);
  const std::string whole = text.substr(0, text.rfind('\n') + 1);  // npos + 1 is 0
  for (const std::string& line : split_lines(whole))
    edges.push_back(nlohmann::json::parse(line));
  return edges;
}

std::vector<nlohmann::json> Daemon::wait_for_edges(std::size_t count,
                                                   const std::string& file) const {
  std::vector<nlohmann::json> found;
  static_cast<void>(eventually(
      [&] {
        found = edges(file);
        return found.size() >= count;
      },
      std::chrono::seconds{20}));
  return found;
}

Daemon::Answer Daemon::get(const std::string& target) const {
  return ask("GET", target);
}

Daemon::Answer Daemon::post(const std::string& target, const std::string& body) const {
  return ask("POST", target, body);
}

Daemon::Answer Daemon::ask(const std::string& method, const std::string& target,
                           const std::string& body) const {
  const std::string& path = http_access_.unix_socket;
  Client client = path.empty() ? Client(http_port_) : Client(path);
  client.send_text(
      method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + http_access_.fields +
      "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const std::string text = client.read_to_end();
  Answer answer;
  if (text.size() > 12) answer.status = std::stoi(text.substr(9, 3));
  if (const auto end = text.find("\r\n\r\n"); end != std::string::npos) {
    answer.body = text.substr(end + 4);
  }
  return answer;
}

double Daemon::metric(const std::string& series) const {
  std::istringstream lines(get("/metrics").body);
  std::optional<double> sum;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(series, 0) == 0) {
      sum = sum.value_or(0) + std::stod(line.substr(line.rfind(' ') + 1));
    }
  }
  if (!sum) throw std::runtime_error("no metric begins with " + series);
  return *sum;
}

void Daemon::signal(int number) const {
  process_->signal(number);
}

bool Daemon::reload(const std::string& config) const {
  const std::string succeeded = "pulsewheel_config_reloads_total{result=\"success\"";
  const std::string all = "pulsewheel_config_reloads_total";
  const double succeeded_before = metric(succeeded);
  const double before = metric(all);
  write_file(config_file() + ".new", config);
  std::filesystem::rename(config_file() + ".new", config_file());
  signal(SIGHUP);
  if (!eventually([&] { return metric(all) > before; })) {
    throw std::runtime_error("no reload: " + log());
  }
  return metric(succeeded) > succeeded_before;
}

int Daemon::wait() {
  return process_->wait();
}

}  // namespace pulsewheel::test
