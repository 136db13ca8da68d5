#include "tests/support/private_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace pulsewheel::test {
namespace {

bool bring_loopback_up() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool up = ::ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  up = up && ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return up;
}

bool nft(const std::string& script) {
  return std::system(("nft '" + script + "' 2> /dev/null").c_str()) == 0;
}

}  // namespace

PrivateNetwork::PrivateNetwork()
    : former_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (::unshare(CLONE_NEWNET) != 0) {
    missing_ = std::string("no network namespace: ") + std::strerror(errno);
    ::close(former_);
    former_ = -1;
    return;
  }
  if (!bring_loopback_up()) {
    missing_ = "no loopback in a network namespace";
  } else if (!nft("add table ip faults")) {
    missing_ = "nft is missing (package nftables), or may not run here";
  }
}

PrivateNetwork::~PrivateNetwork() {
  if (former_ == -1) return;
  if (::setns(former_, CLONE_NEWNET) != 0) std::abort();  // the next test would be in the wrong one
  ::close(former_);
}

void PrivateNetwork::cut_off(const std::string& address) {
  const std::string rule = "add rule ip faults input ip ";
  if (!nft("add chain ip faults input { type filter hook input priority 0; }") ||
      !nft(rule + "saddr " + address + " drop") || !nft(rule + "daddr " + address + " drop")) {
    throw std::runtime_error("nft cannot cut off " + address);
  }
}

void PrivateNetwork::heal() {
  if (!nft("flush table ip faults")) throw std::runtime_error("nft cannot heal");
}

}  // namespace pulsewheel::test
