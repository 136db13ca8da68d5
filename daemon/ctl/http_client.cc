#include "daemon/ctl/http_client.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "daemon/base/build_info.h"

namespace pulsewheel::ctl {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::string_view kDefaultPort = "7601";
constexpr std::size_t kAnswerBytesMax = 64 * 1024 * 1024;  // against a wrong port, not our daemon

[[noreturn]] void refuse_url(std::string_view text, std::string_view why) {
  throw std::invalid_argument("'" + std::string(text) + "' is no URL of a daemon: " +
                              std::string(why) + "; write http://HOST:PORT");
}

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), port);
  return ec == std::errc() && end == text.data() + text.size() && port != 0;
}

bool allowed_in_host(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == ':';
}

// One exchange: operations run one after the other, each to its end, on a loop that has nothing
// else to do. The stream's one deadline covers all of them, until it is renewed.
class Exchange {
 public:
  Exchange(const Access& access, std::chrono::milliseconds timeout)
      : access_(access), timeout_(timeout) {}

  Answer ask(const Question& question) {
    send(question, "application/json");
    http::response_parser<http::string_body> parser;
    parser.body_limit(kAnswerBytesMax);
    run([&](auto done) { http::async_read(stream_, buffer_, parser, done); });
    auto response = parser.release();
    return {response.result_int(), std::move(response.body())};
  }

  Answer follow(const Question& question, const std::function<bool(std::string_view)>& more) {
    send(question, "text/event-stream");
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    run([&](auto done) { http::async_read_header(stream_, buffer_, parser, done); });
    const unsigned status = parser.get().result_int();
    std::string& body = parser.get().body();
    while (!parser.is_done() && body.size() < kAnswerBytesMax) {
      stream_.expires_after(timeout_);
      run([&](auto done) { http::async_read_some(stream_, buffer_, parser, done); });
      if (status != kStatusOk) continue;  // a refusal is wanted whole
      if (!body.empty() && !more(body)) break;
      body.clear();
    }
    return {status, std::move(body)};
  }

 private:
  using Protocol = asio::generic::stream_protocol;

  void send(const Question& question, std::string_view accept) {
    connect();
    const bool is_post = question.method == Question::Method::kPost;
    http::request<http::string_body> request(is_post ? http::verb::post : http::verb::get,
                                             question.target, 11);
    request.set(http::field::host,
                access_.unix_socket.empty() ? access_.url.authority() : std::string("localhost"));
    request.set(http::field::user_agent, "pulsewheelctl/" + std::string(build_info().version));
    request.set(http::field::accept, accept);
    request.set(http::field::connection, "close");
    if (!access_.token.empty()) request.set(http::field::authorization, "Bearer " + access_.token);
    if (!question.last_event_id.empty()) request.set("Last-Event-ID", question.last_event_id);
    if (!question.body.empty()) request.set(http::field::content_type, "application/json");
    request.body() = question.body;
    request.prepare_payload();
    run([&](auto done) { http::async_write(stream_, request, done); });
  }

  // Tries one address after the other, as a name may have several.
  void connect() {
    error_code result = asio::error::host_not_found;
    for (const Protocol::endpoint& endpoint : endpoints()) {
      stream_.expires_after(timeout_);
      io_.restart();
      stream_.async_connect(endpoint, [&result](error_code ec) { result = ec; });
      io_.run();
      if (!result) return;
      stream_.close();
    }
    fail(result);
  }

  std::vector<Protocol::endpoint> endpoints() {
    if (!access_.unix_socket.empty()) return {unix_endpoint()};
    error_code ec;
    const auto found = asio::ip::tcp::resolver(io_).resolve(access_.url.host, access_.url.port, ec);
    if (ec) fail(ec);
    std::vector<Protocol::endpoint> out;
    for (const auto& entry : found)
      out.emplace_back(entry.endpoint());
    return out;
  }

  asio::local::stream_protocol::endpoint unix_endpoint() const {
    try {
      return asio::local::stream_protocol::endpoint(access_.unix_socket);
    } catch (const boost::system::system_error& e) {  // the path is too long
      fail(e.code());
    }
  }

  template <class Start>
  void run(Start start) {
    error_code result;
    start([&result](error_code ec, const auto&) { result = ec; });
    io_.restart();
    io_.run();
    if (result) fail(result);
  }

  [[noreturn]] void fail(error_code ec) const {
    std::string why = ec.message();
    if (ec == beast::error::timeout) {
      why = "no answer within " + std::to_string(timeout_.count()) + " ms";
    } else if (ec == http::error::end_of_stream || ec == http::error::partial_message) {
      why = "the connection ended before the answer was complete";
    } else if (ec.category() == http::make_error_code(http::error::bad_version).category()) {
      why = "what answers there does not speak HTTP (" + why + ")";
    }
    throw UnreachableError("cannot reach " + access_.name() + ": " + why);
  }

  const Access& access_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_{1};
  beast::basic_stream<Protocol> stream_{io_};
  beast::flat_buffer buffer_;
};

}  // namespace

Url Url::parse(std::string_view text) {
  std::string_view rest = text;
  if (!rest.starts_with(kScheme)) refuse_url(text, "it does not start with http://");
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);

  Url url;
  url.port = kDefaultPort;
  std::string_view port;
  if (rest.starts_with('[')) {
    const auto bracket = rest.find(']');
    if (bracket == rest.npos) refuse_url(text, "a '[' has no ']'");
    url.host = rest.substr(1, bracket - 1);
    port = rest.substr(bracket + 1);
  } else {
    const auto colon = std::min(rest.find(':'), rest.size());
    url.host = rest.substr(0, colon);
    port = rest.substr(colon);
  }
  if (url.host.empty()) refuse_url(text, "it names no host");
  if (!std::all_of(url.host.begin(), url.host.end(), allowed_in_host)) {
    refuse_url(text, "the host may hold letters, digits, '-', '.' and '_' only");
  }
  if (!port.empty()) {
    if (!port.starts_with(':') || !is_port(port.substr(1))) {
      refuse_url(text, "a host is followed by ':' and a port from 1 to 65535, or nothing");
    }
    url.port = port.substr(1);
  }
  return url;
}

std::string Url::authority() const {
  const bool v6 = host.find(':') != host.npos;
  return (v6 ? "[" + host + "]" : host) + ":" + port;
}

std::string Access::name() const {
  return unix_socket.empty() ? "http://" + url.authority() : "unix:" + unix_socket;
}

Answer ask(const Access& access, const Question& question, std::chrono::milliseconds timeout) {
  return Exchange(access, timeout).ask(question);
}

Answer follow(const Access& access, const Question& question, std::chrono::milliseconds timeout,
              const std::function<bool(std::string_view)>& more) {
  return Exchange(access, timeout).follow(question, more);
}

}  // namespace pulsewheel::ctl
