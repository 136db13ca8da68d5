// GET /v1/events: the edges as pages of JSON, or as a stream.
#pragma once

#include <chrono>
#include <cstddef>

#include "daemon/admin/api_route.h"
#include "daemon/admin/event_source.h"

namespace pulsewheel {

struct EventRouteLimits {
  std::size_t uid_bytes_max = 128;
  std::size_t page_default = 500;     // events in an answer
  std::size_t page_max = 2'000;       // 1.4 MB, were all uids as long and odd as can be
  std::size_t texts_max = 1'024;      // of the source, looked at for one answer
  std::chrono::seconds wait_max{60};  // of a request that waits for news
  std::size_t waits_max = 128;        // at a time; more: 503. Half of the connections
};

/// Adds GET /v1/events. Behind a cursor (`cursor`, or Last-Event-ID, which is newer) or the `tail`
/// newest events, it answers with
///
///  - a page of JSON: {"events":[...],"cursor":"3-17","more":false}, at most `limit` events, after
///    `wait_s` seconds at most when there are none. `cursor` is where to ask on, at once if `more`;
///  - with Accept: text/event-stream, Server-Sent Events until the client leaves.
///
/// With `uid`, only what concerns this user. Where edges are missing, both say so by an event of
/// their own: {"gap":true,...} when the node itself had to drop them, {"resync":true,...} when the
/// cursor is too old, of another epoch, or ahead of everything.
/// `source` must outlive the router that is made of the table, and is called on the thread that
/// serves it.
void add_event_routes(ApiTable& table, EventSource& source, const EventRouteLimits& limits = {});

}  // namespace pulsewheel
