// Standard streams that whoever started the program has left closed.
#pragma once

namespace pulsewheel {

/// Gives each of the descriptors 0 to 2 that is closed to /dev/null. Else the next file or socket
/// would get the number, and what is meant for standard error would go to a client. For reading
/// alone: writing there fails, and is counted or told as any output that fails.
///
/// Call it first in main(), before anything is opened and while there is one thread. Where
/// /dev/null cannot be opened it does nothing.
void occupy_closed_standard_streams() noexcept;

}  // namespace pulsewheel
