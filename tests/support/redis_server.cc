#include "tests/support/redis_server.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tests/support/eventually.h"

namespace pulsewheel::test {
namespace {

// Nothing that these tests do takes a server this long; a hang does.
constexpr timeval kCommandTimeout{30, 0};

RedisReply to_value(const redisReply& reply) {
  using Type = RedisReply::Type;
  RedisReply value;
  switch (reply.type) {
    case REDIS_REPLY_INTEGER:
      value.type = Type::kInteger;
      value.integer = reply.integer;
      break;
    case REDIS_REPLY_ARRAY:
      value.type = Type::kArray;
      for (std::size_t i = 0; i < reply.elements; ++i)
        value.elements.push_back(to_value(*reply.element[i]));
      break;
    case REDIS_REPLY_NIL:
      break;
    default:
      value.type = reply.type == REDIS_REPLY_STRING   ? Type::kString
                   : reply.type == REDIS_REPLY_STATUS ? Type::kStatus
                                                      : Type::kError;
      value.text.assign(reply.str, static_cast<std::size_t>(reply.len));
  }
  return value;
}

}  // namespace

RedisServer::ReservedPort::ReservedPort()
    : descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(descriptor, generic, size) != 0 || ::getsockname(descriptor, generic, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "no free port");
  }
  number = ntohs(address.sin_port);
}

RedisServer::ReservedPort::~ReservedPort() {
  ::close(descriptor);
}

RedisServer::RedisServer(Options options) : options_(std::move(options)) {
  start();
}

std::vector<std::string> RedisServer::command_line() const {
  std::vector<std::string> words{"redis-server",
                                 "--bind",
                                 "127.0.0.1",
                                 "--port",
                                 std::to_string(port()),
                                 "--unixsocket",
                                 socket_path(),
                                 "--dir",
                                 folder_.path(),
                                 "--save",
                                 "",
                                 "--appendonly",
                                 options_.keeps_data ? "yes" : "no",
                                 "--appendfsync",
                                 "no",
                                 "--daemonize",
                                 "no",
                                 "--user",
                                 "console",
                                 "on",
                                 "nopass",
                                 "~*",
                                 "&*",
                                 "+@all"};
  if (options_.tls) words.insert(words.end(), {"--tls-port", std::to_string(tls_port())});
  if (options_.cluster) {
    words.insert(words.end(),
                 {"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus_port_.number)});
  }
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  return words;
}

void RedisServer::start() {
  process_.emplace(command_line(), folder_ / "log");
  const bool answers = eventually([this] {
    if (!process_->is_running()) return true;
    try {
      return command({"PING"}).is_status("PONG");
    } catch (const std::runtime_error&) {
      return false;
    }
  });
  if (!answers || !process_->is_running())
    throw std::runtime_error("redis-server did not start: " + log());
}

void RedisServer::end(int signal) {
  process_->signal(SIGCONT);
  process_->signal(signal);
  process_->wait();
}

void RedisServer::freeze() const {
  process_->signal(SIGSTOP);
}

void RedisServer::thaw() const {
  process_->signal(SIGCONT);
}

RedisReply RedisServer::command(const std::vector<std::string>& words) const {
  return RedisConsole(*this).command(words);
}

void RedisConsole::FreeContext::operator()(redisContext* context) const noexcept {
  redisFree(context);
}

RedisConsole::RedisConsole(const RedisServer& server)
    : context_(redisConnectUnixWithTimeout(server.socket_path().c_str(), kCommandTimeout)) {
  if (context_ == nullptr || context_->err != 0) throw std::runtime_error("no redis-server");
  redisSetTimeout(context_.get(), kCommandTimeout);
  command({"AUTH", "console", "anything"});
}

RedisConsole::~RedisConsole() = default;

void RedisConsole::append(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    pointers.push_back(word.data());
    sizes.push_back(word.size());
  }
  redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), pointers.data(),
                         sizes.data());
}

RedisReply RedisConsole::command(const std::vector<std::string>& words) {
  append(words);
  void* reply = nullptr;
  if (redisGetReply(context_.get(), &reply) != REDIS_OK) {
    throw std::runtime_error(std::string("redis-server: ") + context_->errstr);
  }
  const std::unique_ptr<redisReply, void (*)(redisReply*)> owner(
      static_cast<redisReply*>(reply), [](redisReply* object) { freeReplyObject(object); });
  return to_value(*owner);
}

void RedisConsole::send(const std::vector<std::string>& words) {
  append(words);
  for (int done = 0; done == 0;) {
    if (redisBufferWrite(context_.get(), &done) != REDIS_OK) {
      throw std::runtime_error(std::string("redis-server: ") + context_->errstr);
    }
  }
}

}  // namespace pulsewheel::test
