// How an address and a port look in messages.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace pulsewheel {

/// "127.0.0.1:7600", "[::1]:7600".
[[nodiscard]] inline std::string to_text(const boost::asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  const std::string port = std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

}  // namespace pulsewheel
