#include "daemon/redis/reply_reader.h"

#include <hiredis/read.h>

#include <charconv>
#include <new>
#include <system_error>
#include <utility>

namespace pulsewheel {

// The reply that hiredis is putting together, seen from its callbacks.
struct ReplyReader::Building {
  const ReplyLimits limits;
  std::size_t elements = 0;       // announced so far by the arrays of the reply
  const char* refusal = nullptr;  // why a callback ended it
};

// hiredis asks for objects while it reads; a null pointer makes it stop with an error. It is C:
// nothing may be thrown through it.
struct ReplyReader::Functions {
  static Building& building(const redisReadTask* task) noexcept {
    return *static_cast<Building*>(task->privdata);
  }

  static void* refuse(const redisReadTask* task, const char* why) noexcept {
    building(task).refusal = why;
    return nullptr;
  }

  /// Gives `reply` its place. An array's elements come in order, and while one of them is an array
  /// that is being read no sibling follows: so a pointer to it stays valid as long as it is used.
  static void* place(const redisReadTask* task, RedisReply&& reply) noexcept {
    try {
      if (task->parent == nullptr) return new RedisReply(std::move(reply));
      auto& elements = static_cast<RedisReply*>(task->parent->obj)->elements;
      return &elements.emplace_back(std::move(reply));
    } catch (const std::bad_alloc&) {
      return refuse(task, "there is no memory for the reply");
    }
  }

  static void* create_string(const redisReadTask* task, char* bytes, std::size_t size) noexcept {
    RedisReply reply;
    switch (task->type) {
      case REDIS_REPLY_STRING:
        reply.type = RedisReply::Type::kString;
        break;
      case REDIS_REPLY_STATUS:
        reply.type = RedisReply::Type::kStatus;
        break;
      case REDIS_REPLY_ERROR:
        reply.type = RedisReply::Type::kError;
        break;
      default:
        return refuse(task, kNotAskedFor);
    }
    try {
      reply.text.assign(bytes, size);
    } catch (const std::bad_alloc&) {
      return refuse(task, "there is no memory for the reply");
    }
    return place(task, std::move(reply));
  }

  /// `elements` is an int in hiredis 0.14 and a size_t later; both have checked that it is not
  /// negative.
  template <class Count>
  static void* create_array(const redisReadTask* task, Count elements) noexcept {
    if (task->type != REDIS_REPLY_ARRAY) return refuse(task, kNotAskedFor);
    Building& built = building(task);
    const auto count = static_cast<std::size_t>(elements);
    if (count > built.limits.elements_max - built.elements) {
      return refuse(task, "the reply announces more elements than a reply may have here");
    }
    built.elements += count;
    std::size_t depth = 1;
    for (const redisReadTask* outer = task->parent; outer != nullptr; outer = outer->parent)
      ++depth;
    if (depth > kDepthMax) return refuse(task, "the arrays of the reply are nested too deeply");
    RedisReply reply;
    reply.type = RedisReply::Type::kArray;
    return place(task, std::move(reply));
  }

  static void* create_integer(const redisReadTask* task, long long value) noexcept {
    RedisReply reply;
    reply.type = RedisReply::Type::kInteger;
    reply.integer = value;
    return place(task, std::move(reply));
  }

  static void* create_nil(const redisReadTask* task) noexcept { return place(task, RedisReply{}); }

  static void free_object(void* root) noexcept { delete static_cast<RedisReply*>(root); }

  /// What later versions of hiredis have beside: their types are RESP3's, which is refused. Without
  /// these functions hiredis would hand out pointers that are none.
  template <class Table>
  static void add_resp3(Table& table) noexcept {
    if constexpr (requires { table.createDouble; }) {
      table.createDouble = [](const redisReadTask* task, double, char*, std::size_t) -> void* {
        return refuse(task, kNotAskedFor);
      };
    }
    if constexpr (requires { table.createBool; }) {
      table.createBool = [](const redisReadTask* task, int) -> void* {
        return refuse(task, kNotAskedFor);
      };
    }
  }

  static redisReplyObjectFunctions* table() noexcept {
    static redisReplyObjectFunctions functions = [] {
      redisReplyObjectFunctions made{};
      made.createString = create_string;
      made.createArray = create_array;
      made.createInteger = create_integer;
      made.createNil = create_nil;
      made.freeObject = free_object;
      add_resp3(made);
      return made;
    }();
    return &functions;
  }

  static constexpr const char* kNotAskedFor =
      "the reply is of a type of RESP3, which this connection did not ask for";
};

void ReplyReader::FreeReader::operator()(redisReader* reader) const noexcept {
  redisReaderFree(reader);
}

ReplyReader::ReplyReader(ReplyLimits limits)
    : limits_(limits),
      building_(new Building{limits}),
      reader_(redisReaderCreateWithFunctions(Functions::table())) {
  if (reader_ == nullptr) throw std::bad_alloc();
  reader_->privdata = building_.get();
}

ReplyReader::~ReplyReader() = default;

void ReplyReader::feed(std::string_view bytes) {
  // An error stays with the reader, and next() tells it.
  bytes_ += bytes.size();
  redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
}

ReplyReader::Status ReplyReader::next(RedisReply& out) {
  if (!error_.empty()) return Status::kError;
  void* root = nullptr;
  if (redisReaderGetReply(reader_.get(), &root) != REDIS_OK) {
    return fail(building_->refusal != nullptr ? building_->refusal : reader_->errstr);
  }
  if (root == nullptr) return need_more();
  const std::unique_ptr<RedisReply> reply(static_cast<RedisReply*>(root));
  out = std::move(*reply);
  building_->elements = 0;
  bytes_ = reader_->len - reader_->pos;
  return Status::kReply;
}

ReplyReader::Status ReplyReader::need_more() {
  if (bytes_ > limits_.bytes_max) return fail("the reply is longer than a reply may be here");
  if (announced_string_size() > limits_.bytes_max) {
    return fail("the reply announces a longer string than a reply may have here");
  }
  return Status::kNeedMore;
}

/// The size of the string that hiredis is waiting for, 0 when it waits for none. What it could not
/// read yet starts with a type byte, with a part of a line, or, only for a string, with a whole
/// line: its size.
std::size_t ReplyReader::announced_string_size() const noexcept {
  const std::string_view unread(reader_->buf + reader_->pos, reader_->len - reader_->pos);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(unread.data(), unread.data() + unread.size(), size);
  const std::string_view behind(end, static_cast<std::size_t>(unread.data() + unread.size() - end));
  if (!behind.starts_with("\r\n")) return 0;
  return error == std::errc::result_out_of_range ? SIZE_MAX : size;
}

ReplyReader::Status ReplyReader::fail(std::string_view error) noexcept {
  error_ = error;
  return Status::kError;
}

}  // namespace pulsewheel
