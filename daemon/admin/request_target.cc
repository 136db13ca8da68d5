#include "daemon/admin/request_target.h"

#include <algorithm>
#include <string>

#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>

namespace pulsewheel {

namespace {

bool allowed_in_target(char c) {
  return c > 0x20 && c < 0x7f && c != '#';
}

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<RequestTarget> RequestTarget::parse(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  if (!std::all_of(target.begin(), target.end(), allowed_in_target)) return std::nullopt;

  RequestTarget out;
  std::string_view path = target.substr(1);
  if (const auto question = path.find('?'); question != path.npos) {
    out.query = path.substr(question + 1);
    path = path.substr(0, question);
  }
  if (path.empty()) return out;

  for (;;) {
    if (out.segments.size() == kSegmentsMax) return std::nullopt;
    const auto slash = path.find('/');
    out.segments.push_back(path.substr(0, slash));
    if (slash == path.npos) break;
    path.remove_prefix(slash + 1);
  }
  std::string_view& last = out.segments.back();
  if (const auto colon = last.find(':'); colon != last.npos) {
    out.has_verb = true;
    out.verb = last.substr(colon + 1);
    last = last.substr(0, colon);
  }
  return out;
}

bool is_local_host(std::string_view host) {
  boost::system::error_code ec;
  if (!host.empty() && host.front() == '[') {
    const auto bracket = host.find(']');
    if (bracket == host.npos) return false;
    const std::string_view rest = host.substr(bracket + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return false;
    boost::asio::ip::make_address_v6(std::string(host.substr(1, bracket - 1)), ec);
    return !ec;
  }
  if (const auto colon = host.find(':'); colon != host.npos) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (boost::beast::iequals(host, "localhost")) return true;
  boost::asio::ip::make_address_v4(std::string(host), ec);
  return !ec;
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  const auto authority = origin.find("://");
  return authority != origin.npos && boost::beast::iequals(origin.substr(authority + 3), host);
}

}  // namespace pulsewheel
