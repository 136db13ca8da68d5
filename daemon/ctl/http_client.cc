#include "daemon/ctl/http_client.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
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
// else to do. The stream's one deadline covers all of them.
class Exchange {
 public:
  Exchange(const Url& url, std::chrono::milliseconds timeout) : url_(url), timeout_(timeout) {}

  Answer ask(http::verb method, std::string_view target) {
    const auto endpoints = resolve();
    stream_.expires_after(timeout_);
    run([&](auto done) { stream_.async_connect(endpoints, done); });

    http::request<http::empty_body> request(method, target, 11);
    request.set(http::field::host, url_.authority());
    request.set(http::field::user_agent, "pulsewheelctl/" + std::string(build_info().version));
    request.set(http::field::connection, "close");
    request.prepare_payload();
    run([&](auto done) { http::async_write(stream_, request, done); });

    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kAnswerBytesMax);
    run([&](auto done) { http::async_read(stream_, buffer, parser, done); });
    auto response = parser.release();
    return {response.result_int(), std::move(response.body())};
  }

 private:
  asio::ip::tcp::resolver::results_type resolve() {
    error_code ec;
    auto endpoints = asio::ip::tcp::resolver(io_).resolve(url_.host, url_.port, ec);
    if (ec) fail(ec);
    return endpoints;
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
    throw UnreachableError("cannot reach http://" + url_.authority() + ": " + why);
  }

  const Url& url_;
  const std::chrono::milliseconds timeout_;
  asio::io_context io_{1};
  beast::tcp_stream stream_{io_};
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

Answer http_get(const Url& url, std::string_view target, std::chrono::milliseconds timeout) {
  return Exchange(url, timeout).ask(http::verb::get, target);
}

Answer http_post(const Url& url, std::string_view target, std::chrono::milliseconds timeout) {
  return Exchange(url, timeout).ask(http::verb::post, target);
}

}  // namespace pulsewheel::ctl
