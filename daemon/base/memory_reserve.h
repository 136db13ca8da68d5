// Memory kept back for the moment in which there is none left: to end well what has begun. Where
// even that does not suffice, std::bad_alloc leaves the loop of a shard and the process ends: a
// node that has lost mail between its shards would say things that are not true.
#pragma once

#include <cstddef>

namespace pulsewheel::memory_reserve {

/// Holds `bytes` back from now on, as a std::new_handler: when an allocation anywhere in the
/// process finds no memory, the reserve is given up and the allocation tried again. std::bad_alloc
/// comes only when that does not help, or the reserve is given up already. Costs address space,
/// not resident memory: it is never touched. Call once, at start. Throws std::bad_alloc.
void hold(std::size_t bytes);

/// Whether memory is short: the reserve has been given up and not been taken back. Who could
/// refuse work then should. Any thread; one load.
[[nodiscard]] bool spent() noexcept;

/// Takes the reserve back if there is memory for it again. Returns !spent(). Any thread.
bool retake() noexcept;

}  // namespace pulsewheel::memory_reserve
