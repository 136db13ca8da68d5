#include "daemon/redis/host_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "daemon/base/mutex.h"
#include "daemon/base/service_thread.h"

namespace pulsewheel {

namespace asio = boost::asio;

namespace {

/// Nothing is thrown on the thread of a look-up.
HostAddresses look_up(const HostResolver::Lookup& lookup, const std::string& host) {
  try {
    return lookup(host);
  } catch (const std::exception& trouble) {
    return {.error = trouble.what()};
  }
}

}  // namespace

/// What outlives the resolver, if need be.
struct HostResolver::Shared {
  explicit Shared(asio::io_context* context) : io(context) {}

  Callback callback;  // the resolver's thread's

  Mutex mutex;
  asio::io_context* io PULSEWHEEL_GUARDED_BY(mutex);  // null: the resolver is gone
  bool under_way PULSEWHEEL_GUARDED_BY(mutex) = false;

  /// On the resolver's thread.
  void deliver(HostAddresses found) {
    if (const auto waiting = std::exchange(callback, nullptr)) waiting(std::move(found));
  }

  /// On any thread. Without memory for it nobody is called: whoever asked has a limit for that.
  static void end(const std::shared_ptr<Shared>& self, HostAddresses found) {
    const MutexLock lock(self->mutex);
    self->under_way = false;
    if (self->io == nullptr) return;
    try {
      asio::post(*self->io,
                 [self, found = std::move(found)]() mutable { self->deliver(std::move(found)); });
    } catch (const std::bad_alloc&) {
    }
  }
};

HostResolver::HostResolver(asio::io_context& io, std::string host, Lookup lookup)
    : host_(std::move(host)), lookup_(std::move(lookup)), shared_(std::make_shared<Shared>(&io)) {}

HostResolver::~HostResolver() {
  cancel();
  const MutexLock lock(shared_->mutex);
  shared_->io = nullptr;
}

void HostResolver::cancel() noexcept {
  shared_->callback = nullptr;
}

void HostResolver::resolve(Callback callback) {
  shared_->callback = std::move(callback);
  {
    const MutexLock lock(shared_->mutex);
    if (std::exchange(shared_->under_way, true)) return;
  }
  try {
    ServiceThread thread;
    thread.start("pw-resolver", [shared = shared_, host = host_, lookup = lookup_] {
      Shared::end(shared, look_up(lookup, host));
    });
    static_cast<void>(thread.join_within(Duration::zero()));  // that is, leaves it to itself
  } catch (const std::system_error& no_thread) {
    Shared::end(shared_, {.error = no_thread.what()});
  }
}

HostAddresses HostResolver::by_system(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) {
    return {.error = error == EAI_SYSTEM ? std::generic_category().message(errno)
                                         : ::gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  HostAddresses found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    endpoint.resize(entry->ai_addrlen);
    found.addresses.push_back(endpoint.address());
  }
  if (found.addresses.empty()) found.error = "the name has no address";
  return found;
}

}  // namespace pulsewheel
