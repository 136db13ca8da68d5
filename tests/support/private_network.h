// PrivateNetwork: a network of a test's own, in which packets can be lost.
#pragma once

#include <string>

namespace pulsewheel::test {

/// A network namespace with nothing but loopback, which this thread and the children that it starts
/// are in as long as the object lives. Sockets stay in the namespace that they were made in.
/// Needs the right to make one (CAP_SYS_ADMIN) and nft.
class PrivateNetwork {
 public:
  PrivateNetwork();
  ~PrivateNetwork();
  PrivateNetwork(const PrivateNetwork&) = delete;
  PrivateNetwork& operator=(const PrivateNetwork&) = delete;

  /// Why there is none, for GTEST_SKIP(); empty: there is one.
  [[nodiscard]] const std::string& missing() const { return missing_; }

  /// Loses every packet from and to an IPv4 address without a word to anybody. Throws when nft
  /// fails.
  void cut_off(const std::string& address);
  /// Delivers again.
  void heal();

 private:
  int former_ = -1;
  std::string missing_;
};

}  // namespace pulsewheel::test
