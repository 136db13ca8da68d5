#include "tests/integration/daemon.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "tests/integration/client.h"
#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

pid_t start(const std::vector<std::string>& arguments, const std::string& log,
            std::uint64_t descriptor_limit, const std::function<void()>& in_child) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::close(out);
    return pid;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (descriptor_limit != 0) {
    const rlimit limit{descriptor_limit, descriptor_limit};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (in_child) in_child();
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

Ended run_program(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  int status = 0;
  ::waitpid(start(arguments, folder / "log", 0, {}), &status, 0);
  return {exit_code(status), read_file(folder / "log")};
}

std::vector<std::string> Daemon::arguments(const Options& options, const Files& files) {
  std::vector<std::string> all{PULSEWHEELD_PATH};
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
  pid_ = start(arguments(options, {state_dir_, ports_file, config_file()}), folder_ / "log",
               options.descriptor_limit, options.in_child);
  int status = 0;
  const bool listens = eventually([&] {
    if (::waitpid(pid_, &status, WNOHANG) == pid_) pid_ = -1;
    return pid_ == -1 || ::access(ports_file.c_str(), R_OK) == 0;
  });
  if (!listens || pid_ == -1) throw std::runtime_error("the daemon did not start: " + log());
  const auto ports = nlohmann::json::parse(read_file(ports_file));
  port_ = ports.at("listeners").at(0).at("port");
  http_port_ = ports.at("http").at("port");
}

Daemon::~Daemon() {
  if (pid_ == -1) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Ended Daemon::run_to_end(Options options) {
  const TemporaryFolder folder;
  const Files files{options.state_dir.empty() ? folder / "state" : options.state_dir,
                    folder / "ports", folder / "pulsewheel.toml"};
  int status = 0;
  ::waitpid(
      start(arguments(options, files), folder / "log", options.descriptor_limit, options.in_child),
      &status, 0);
  return {exit_code(status), read_file(folder / "log")};
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

Daemon::Answer Daemon::post(const std::string& target) const {
  return ask("POST", target);
}

Daemon::Answer Daemon::ask(const std::string& method, const std::string& target) const {
  const std::string& path = http_access_.unix_socket;
  Client client = path.empty() ? Client(http_port_) : Client(path);
  client.send_text(method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                   http_access_.fields + "Connection: close\r\n\r\n");
  const std::string text = client.read_to_end();
  Answer answer;
  if (text.size() > 12) answer.status = std::stoi(text.substr(9, 3));
  if (const auto body = text.find("\r\n\r\n"); body != std::string::npos) {
    answer.body = text.substr(body + 4);
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
  ::kill(pid_, number);
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
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return exit_code(status);
}

}  // namespace pulsewheel::test
