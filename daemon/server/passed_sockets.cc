#include "daemon/server/passed_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "config/config.h"
#include "daemon/base/descriptor_tables.h"
#include "daemon/base/endpoint_text.h"
#include "daemon/server/start_error.h"

namespace pulsewheel {
namespace {

using boost::asio::ip::tcp;

/// What one would call a socket for operators (FileDescriptorName=); clients have no business
/// there.
constexpr std::string_view kHttpName = "http";

[[noreturn]] void refuse(const std::string& what) {
  throw StartError(ExitCode::kConfig, what);
}

/// An integer option of SOL_SOCKET; nullopt when there is none, or no socket.
std::optional<int> socket_option(int descriptor, int name) noexcept {
  int value = 0;
  socklen_t size = sizeof(value);
  if (::getsockopt(descriptor, SOL_SOCKET, name, &value, &size) != 0) return std::nullopt;
  return value;
}

/// What is wrong with it as a listener for clients; empty: nothing.
std::string fault_of(int descriptor) {
  const auto domain = socket_option(descriptor, SO_DOMAIN);
  if (!domain) return "is no socket";
  if (*domain == AF_UNIX) return "is a Unix socket";
  if (*domain != AF_INET && *domain != AF_INET6) return "is a socket of neither IPv4 nor IPv6";
  if (socket_option(descriptor, SO_TYPE) != SOCK_STREAM ||
      socket_option(descriptor, SO_PROTOCOL) != IPPROTO_TCP) {
    return "is no TCP socket (in a socket unit, ListenDatagram= makes UDP)";
  }
  if (socket_option(descriptor, SO_ACCEPTCONN) != 1) {
    return "does not listen (in a socket unit, Accept=yes passes connections)";
  }
  return "";
}

tcp::endpoint local_endpoint(int descriptor) {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(descriptor, endpoint.data(), &size) != 0) {
    refuse("cannot ask a passed socket for its address: " + std::generic_category().message(errno));
  }
  endpoint.resize(size);
  return endpoint;
}

struct FreeNames {
  void operator()(char** names) const noexcept {
    for (char** name = names; *name != nullptr; ++name)
      std::free(*name);
    std::free(names);
  }
};

}  // namespace

std::vector<PassedListener> group_by_address(const std::vector<PassedSocket>& sockets,
                                             std::size_t listeners_max) {
  std::vector<PassedListener> listeners;
  for (const PassedSocket& socket : sockets) {
    const auto known = std::find_if(
        listeners.begin(), listeners.end(),
        [&](const PassedListener& listener) { return listener.endpoint == socket.endpoint; });
    if (known != listeners.end()) {
      known->descriptors.push_back(socket.descriptor);
    } else {
      listeners.push_back({socket.endpoint, {socket.descriptor}});
    }
  }
  if (listeners.size() > listeners_max) {
    refuse("sockets for " + std::to_string(listeners.size()) + " addresses were passed: at most " +
           std::to_string(listeners_max) + " are served");
  }
  return listeners;
}

std::uint32_t shards_for(const std::vector<PassedListener>& listeners, std::uint32_t configured) {
  if (configured != 0) return configured;
  std::size_t most = 0;
  for (const PassedListener& listener : listeners)
    most = std::max(most, listener.descriptors.size());
  return most > 1 ? static_cast<std::uint32_t>(std::min<std::size_t>(most, kShardsMax)) : 0;
}

void check_listeners(const std::vector<PassedListener>& listeners, std::size_t shards,
                     const std::string& reason) {
  for (const PassedListener& listener : listeners) {
    const std::size_t count = listener.descriptors.size();
    if (count == 1 || count == shards) continue;
    refuse(
        std::to_string(count) + " sockets were passed for " + to_text(listener.endpoint) +
        ", and there are " + std::to_string(shards) + " shards (" + reason +
        "): pass one for each shard (ReusePort=yes), or a single one for all of them; "
        "server.shards, server.max_connections and LimitNOFILE decide how many shards there are");
  }
}

PassedSockets PassedSockets::take() {
  char** raw_names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &raw_names);
  if (count < 0) {
    refuse("LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES is wrong: " +
           std::generic_category().message(-count));
  }
  const std::unique_ptr<char*, FreeNames> names(raw_names);
  std::vector<PassedSocket> sockets;
  for (int i = 0; i < count; ++i) {
    const int descriptor = SD_LISTEN_FDS_START + i;
    if (std::string_view(names.get()[i]) == kHttpName) {
      refuse(
          "a socket named \"http\" was passed, but the HTTP port is the daemon's own to open: "
          "see http.address, http.port and http.unix_socket");
    }
    if (const std::string fault = fault_of(descriptor); !fault.empty()) {
      refuse("passed descriptor " + std::to_string(descriptor) + " (" + names.get()[i] + ") " +
             fault + "; clients need a listening TCP socket, as of ListenStream=7600");
    }
    sockets.push_back({descriptor, local_endpoint(descriptor)});
  }
  PassedSockets passed;
  passed.listeners_ = group_by_address(sockets, Config::kListenersMax);
  return passed;
}

void PassedSockets::close_inherited() const noexcept {
  for (const PassedListener& listener : listeners_) {
    for (const int descriptor : listener.descriptors)
      ::close(descriptor);
  }
}

}  // namespace pulsewheel
