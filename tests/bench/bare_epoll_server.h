// bare_epoll_server: the least that answers a packet on each of many connections.
#pragma once

namespace pulsewheel::bench {

/// Accepts on `listener`, which is in listening state and non-blocking, and sends back whatever
/// comes: one recv() and one send() for each readiness, with no buffers, timers or state beside
/// them. What it spends on a packet is what the kernel asks of any server. For ever; ends the
/// process when epoll fails.
[[noreturn]] void run_bare_epoll_server(int listener);

}  // namespace pulsewheel::bench
