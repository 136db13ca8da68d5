// Request, Response and Responder: what a handler of the HTTP port sees of HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/verb.hpp>
#include <nlohmann/json_fwd.hpp>

namespace pulsewheel {

namespace http = boost::beast::http;

/// One parameter of a route's pattern, percent-decoded: any byte may occur in `value`.
struct PathParam {
  std::string_view name;  // the pattern's
  std::string value;
};

/// A request that has a route. The views point into the connection: a handler that answers later
/// copies what it still needs.
struct Request {
  http::verb method = http::verb::get;  // of the route: HEAD arrives as GET
  std::string_view query;               // what follows '?', still percent-encoded
  std::string_view body;
  std::vector<PathParam> params;         // in the order of the pattern
  const http::fields* fields = nullptr;  // of the head; null: none

  /// Requires that the route's pattern has a parameter `name`.
  [[nodiscard]] const std::string& param(std::string_view name) const;
  /// The value of the first header field `name`, whatever its case; empty when there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
};

/// The body of an answer that goes on until the client leaves. Belongs to one connection; called on
/// the HTTP thread.
class BodyStream {
 public:
  virtual ~BodyStream() = default;

  struct Piece {
    std::shared_ptr<const void> owner;  // what `bytes` lie in, if they are no literal
    std::string_view bytes;
  };
  /// What to send next; empty when there is nothing yet. Then `on_ready` is called once, later,
  /// when there may be something. Called again before that, only the newest one counts.
  virtual Piece next(std::function<void()> on_ready) = 0;
  /// What to send when there was nothing for HttpLimits::heartbeat_interval: something that the
  /// client skips. It keeps proxies from giving up, and finds clients that are gone.
  virtual Piece heartbeat() = 0;
};

struct Response {
  /// What a browser that shows the answer may load and run: nothing. A literal, as all are.
  static constexpr std::string_view kNothing = "default-src 'none'; frame-ancestors 'none'";
  std::string_view content_security_policy = kNothing;

  http::status status = http::status::ok;
  std::string_view content_type;  // a literal
  std::string body;
  std::vector<std::pair<http::field, std::string>> fields;  // beyond those of every answer
  bool close = false;                                       // the connection ends after this answer
  std::shared_ptr<BodyStream> stream;  // if set, the body, and `body` is not used
};

inline constexpr std::string_view kJsonType = "application/json";
inline constexpr std::string_view kTextType = "text/plain; charset=utf-8";

/// `value` in one line. Bytes that are no UTF-8 become U+FFFD; nothing throws because of them.
[[nodiscard]] Response json_response(const nlohmann::json& value);

/// {"error":{"code":"...","message":"..."}}. `code` is for programs (snake_case, never changes
/// its meaning); `message` is one sentence for people that names what was wrong and what is
/// allowed.
[[nodiscard]] Response error_response(http::status status, std::string_view code,
                                      std::string_view message);

/// A name that a client sent, in quotes for an error that has to say it; cut where it is long.
[[nodiscard]] std::string in_quotes(std::string_view name);

/// The one answer of one request, now or later, from any thread but from one at a time. Copies
/// share the one answer: the first call counts, later ones have no effect. When the last copy goes
/// without an answer the client gets a 500. No effect once the connection is gone, or the whole
/// server; but a call while another thread destroys the server is a race.
class Responder {
 public:
  using Sink = std::function<void(Response)>;
  explicit Responder(Sink sink);

  void operator()(Response response) const;

 private:
  struct Pending {
    explicit Pending(Sink to) : sink(std::move(to)) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending();
    Sink sink;
  };
  std::shared_ptr<Pending> pending_;
};

/// May answer before it returns. What it throws becomes a 500.
using Handler = std::function<void(const Request&, Responder)>;

}  // namespace pulsewheel
