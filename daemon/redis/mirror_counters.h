// MirrorCounters: what the mirror tells about itself in numbers.
#pragma once

#include <cstdint>

#include "daemon/base/counters.h"
#include "daemon/redis/redis_counters.h"

namespace pulsewheel {

/// Written by the mirror's thread, read by any.
struct MirrorCounters {
  Gauge joined;            // 1 while changes are written
  Gauge refused;           // 1 while a server is there that must not be written to
  Gauge queued;            // changes that wait
  Gauge queued_bytes;      // about, of these
  Counter moved;           // users filed anew
  Counter added;           // users who came online
  Counter removed;         // users who went offline
  Counter batches;         // calls of scripts that did it
  Counter lost_edges;      // edges that the stream will not have
  Counter lost_deadlines;  // times that changed deadlines were lost on the way
  Counter repairs;         // runs that came to their end
  Counter repaired;        // what they found, in sum
  Gauge differences;       // what the last one found
  Counter rejected;        // changes that Redis did not take and that are left to a repair
  DurationHistogram lag{
      RedisCounters::kRoundTripBounds};  // from the shards' hand-over to the reply
};

}  // namespace pulsewheel
