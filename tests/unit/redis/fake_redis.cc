#include "tests/unit/redis/fake_redis.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace pulsewheel::test {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

namespace {

/// Takes "<mark>NUMBER\r\n" off the front.
std::optional<std::size_t> take_number(std::string_view& text, char mark) {
  const std::size_t end = text.find("\r\n");
  if (!text.starts_with(mark) || end == std::string_view::npos) return std::nullopt;
  const std::size_t number = std::stoul(std::string(text.substr(1, end - 1)));
  text.remove_prefix(end + 2);
  return number;
}

/// Takes a whole command off the front of `bytes`; nullopt, and nothing taken, when it is not
/// whole.
std::optional<FakeRedis::Command> take_command(std::string& bytes) {
  std::string_view rest = bytes;
  const auto count = take_number(rest, '*');
  if (!count) return std::nullopt;
  FakeRedis::Command words;
  for (std::size_t i = 0; i < *count; ++i) {
    const auto size = take_number(rest, '$');
    if (!size || rest.size() < *size + 2) return std::nullopt;
    words.emplace_back(rest.substr(0, *size));
    rest.remove_prefix(*size + 2);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return words;
}

}  // namespace

struct FakeRedis::Connection : std::enable_shared_from_this<Connection> {
  Connection(FakeRedis& owner, Tcp::socket accepted, std::size_t number)
      : server(owner), socket(std::move(accepted)), index(number) {}

  void do_read() {
    socket.async_read_some(asio::buffer(buffer),
                           [self = shared_from_this()](error_code ec, std::size_t size) {
                             if (ec || !self->socket.is_open()) return;
                             self->received.append(self->buffer.data(), size);
                             while (auto command = take_command(self->received)) {
                               self->server.commands[self->index].push_back(*command);
                               if (!self->say(self->server.answer(*command))) return;
                             }
                             self->do_read();
                           });
  }

  /// False: the connection was to end.
  bool say(std::string bytes) {
    const bool ends = bytes.starts_with(kClose);
    if (ends) bytes.erase(0, 1);
    error_code ignored;
    asio::write(socket, asio::buffer(bytes), ignored);
    if (ends) socket.close(ignored);
    return !ends;
  }

  FakeRedis& server;
  Tcp::socket socket;
  std::size_t index;
  std::array<char, 4096> buffer{};
  std::string received;
};

FakeRedis::FakeRedis(asio::io_context& io)
    : answer(usual_answer),
      io_(io),
      acceptor_(io, Tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
      port_(acceptor_.local_endpoint().port()) {
  do_accept();
}

FakeRedis::~FakeRedis() {
  hang_up();
}

void FakeRedis::do_accept() {
  acceptor_.async_accept([this](error_code ec, Tcp::socket socket) {
    if (ec) return;
    commands.emplace_back();
    const auto connection = std::make_shared<Connection>(*this, std::move(socket), connections++);
    open_.push_back(connection);
    if (connection->say(greeting) && reads) connection->do_read();
    do_accept();
  });
}

std::vector<FakeRedis::Command> FakeRedis::payload() const {
  std::vector<Command> all;
  for (const auto& of_connection : commands) {
    for (const Command& command : of_connection) {
      if (usual_answer(command).empty()) all.push_back(command);
    }
  }
  return all;
}

void FakeRedis::say(const std::string& bytes) {
  open_.back()->say(bytes);
}

void FakeRedis::hang_up() {
  error_code ignored;
  for (const auto& connection : std::exchange(open_, {}))
    connection->socket.close(ignored);
}

void FakeRedis::stop_listening() {
  // Bound and not listening, the port refuses and nobody else gets it.
  error_code ignored;
  acceptor_.close(ignored);
  acceptor_.open(Tcp::v4());
  acceptor_.set_option(Tcp::acceptor::reuse_address(true));
  acceptor_.bind(Tcp::endpoint(asio::ip::address_v4::loopback(), port_));
}

void FakeRedis::listen_again() {
  acceptor_.listen();
  do_accept();
}

std::string FakeRedis::usual_answer(const Command& command) {
  if (command[0] == "AUTH" || command[0] == "CLIENT" || command[0] == "SELECT") return "+OK\r\n";
  if (command[0] == "PING") return "+PONG\r\n";
  return "";
}

}  // namespace pulsewheel::test
