// How mail goes from one shard's loop to another's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "daemon/server/shard_mail.h"

namespace pulsewheel {

/// Has `loop` call `deliver(MailBatch&)` with what is in `outbox`, which is empty then. Where
/// memory runs out std::bad_alloc is thrown, and everything is still in `outbox`.
template <class Deliver>
void post_mail(boost::asio::io_context& loop, MailBatch& outbox, Deliver deliver) {
  // Shared with the handler, since a post() that fails takes its handler along.
  const auto batch = std::make_shared<MailBatch>();
  batch->swap(outbox);
  try {
    boost::asio::post(loop, [batch, deliver = std::move(deliver)]() mutable { deliver(*batch); });
  } catch (...) {
    batch->swap(outbox);
    throw;
  }
}

}  // namespace pulsewheel
