// RawClient: a client of the HTTP port that sends exactly the bytes it is told to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

namespace pulsewheel {

/// Blocking; each wait ends after 20 s at most. What cannot happen to an honest test throws
/// std::runtime_error, which fails the test.
class RawClient {
 public:
  using Answer = boost::beast::http::response<boost::beast::http::string_body>;

  /// Connects to 127.0.0.1, with a small receive buffer if `receive_buffer_bytes` is not 0.
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0);
  /// Connects to a unix socket.
  explicit RawClient(const std::string& path);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes);
  /// Half-closes: the server reads an end of file, this side goes on reading.
  void finish_sending();
  /// Reads one answer. `to_head`: it has no body, whatever its fields say.
  Answer read_answer(bool to_head = false);
  /// The next `size` bytes.
  std::string read_exactly(std::size_t size);
  /// Reads to the end of the connection and returns what came; a reset counts as an end.
  std::string read_to_end();

  /// send() and read_answer().
  Answer ask(std::string_view bytes) {
    send(bytes);
    return read_answer();
  }

 private:
  bool fill();  // false: end of file or reset

  int fd_;
  std::string unread_;
};

/// A GET request with Host and nothing else.
std::string get(std::string_view target);
/// A POST request with Host, no body, and `fields` ("Name: value\r\n", or none).
std::string post(std::string_view target, std::string_view fields = {});
/// A POST request with `body`.
std::string post_with_body(std::string_view target, std::string_view body);

}  // namespace pulsewheel
