// What a thread does to itself when it starts: its name and its signal mask.
#pragma once

#include <cstddef>
#include <string_view>

namespace pulsewheel {

/// Linux keeps this many bytes of a thread's name.
inline constexpr std::size_t kThreadNameBytesMax = 15;

/// Names the calling thread for ps, top, gdb and /proc; a longer name is cut.
void set_thread_name(std::string_view name) noexcept;

/// Blocks every signal in the calling thread, but for those that report a fault of the thread
/// itself (SIGSEGV and its like). A thread with a descriptor table of its own has to do this
/// before it separates: a handler that writes to a pipe by number would hit whatever that number
/// is in this thread's table.
void block_all_signals_in_this_thread() noexcept;

/// Lets signals in again: in the main thread, once all others have started with signals blocked.
void unblock_all_signals_in_this_thread() noexcept;

}  // namespace pulsewheel
