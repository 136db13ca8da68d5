// HostResolver: looks a host's addresses up, and is never waited for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>

namespace pulsewheel {

/// What became of a look-up.
struct HostAddresses {
  std::vector<boost::asio::ip::address> addresses{};
  std::string error{};  // why there are none, for the log
};

/// The system's look-up blocks, and cannot be cut short: half a minute where three name servers do
/// not answer (5 s, two attempts each), that much again for each search domain, and no limit at all
/// in a plug-in that hangs. (The end of an io_context waits for a look-up of Asio's own resolver.)
///
/// So the rule: a look-up has a thread of its own, "pw-resolver", which owns all that it touches
/// and is never joined. There is one at a time: who asks while it is under way gets its answer. It
/// ends by itself, or with the process.
///
/// Confined to the thread that runs its io_context, which outlives it.
class HostResolver {
 public:
  /// Blocks; runs on the look-up's thread, and owns what it uses.
  using Lookup = std::function<HostAddresses(const std::string& host)>;
  using Callback = std::function<void(HostAddresses)>;

  /// Opens and starts nothing.
  HostResolver(boost::asio::io_context& io, std::string host, Lookup lookup = by_system);
  /// cancel().
  ~HostResolver();
  HostResolver(const HostResolver&) = delete;
  HostResolver& operator=(const HostResolver&) = delete;

  /// Calls `callback` once, later, with the answer; it takes the place of an earlier one that still
  /// waits.
  void resolve(Callback callback);
  /// Drops the callback that waits. Idempotent.
  void cancel() noexcept;

  /// getaddrinfo(), with all addresses in its order.
  [[nodiscard]] static HostAddresses by_system(const std::string& host);

 private:
  struct Shared;  // with the thread

  const std::string host_;
  const Lookup lookup_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace pulsewheel
