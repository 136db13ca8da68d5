#include "daemon/redis/reply_reader.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/unit/redis/replies.h"

namespace pulsewheel {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;
using Status = ReplyReader::Status;
using Type = RedisReply::Type;

// All replies in `bytes`, given in pieces of `piece`; then the error, if there was one.
struct Read {
  std::vector<RedisReply> replies;
  std::string error;
};
Read read(std::string_view bytes, std::size_t piece = std::string_view::npos,
          ReplyLimits limits = {}) {
  ReplyReader reader(limits);
  Read out;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      RedisReply reply;
      const Status status = reader.next(reply);
      if (status == Status::kNeedMore) break;
      if (status == Status::kError) {
        out.error = reader.error();
        return out;
      }
      out.replies.push_back(std::move(reply));
    }
  }
  return out;
}

const std::string kEveryType =
    "+OK\r\n-ERR no\r\n:42\r\n:-7\r\n$5\r\nh\0\r\nx\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
    "*3\r\n$1\r\na\r\n*2\r\n:1\r\n*1\r\n+deep\r\n$-1\r\n+after\r\n"s;

std::vector<RedisReply> every_type() {
  return {text_reply(Type::kStatus, "OK"),
          text_reply(Type::kError, "ERR no"),
          integer_reply(42),
          integer_reply(-7),
          text_reply(Type::kString, "h\0\r\nx"s),
          text_reply(Type::kString, ""),
          RedisReply{},
          RedisReply{},
          array_reply({}),
          array_reply(
              {text_reply(Type::kString, "a"),
               array_reply({integer_reply(1), array_reply({text_reply(Type::kStatus, "deep")})}),
               RedisReply{}}),
          text_reply(Type::kStatus, "after")};
}

TEST(ReplyReaderTest, ReadsEveryType) {
  const Read all = read(kEveryType);
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.replies, every_type());
}

TEST(ReplyReaderTest, ReadsTheSameHoweverTheBytesAreCut) {
  for (std::size_t piece = 1; piece < kEveryType.size(); ++piece)
    EXPECT_EQ(read(kEveryType, piece).replies, every_type()) << piece;
}

TEST(ReplyReaderTest, RefusesWhatIsNoReply) {
  for (const std::string& garbage :
       {"HTTP/1.1 400 Bad Request\r\n"s, "\x16\x03\x01\x02"s, "\0\0\0\0"s, "OK\r\n"s, "\r\n"s,
        "$-2\r\n"s, "$abc\r\n"s, "*-2\r\n"s, "*x\r\n"s, ":12x\r\n"s, "*2147483648\r\n"s,
        "*99999999999999999999\r\n"s, "$99999999999999999999\r\n"s}) {
    const Read all = read("+OK\r\n" + garbage + "+OK\r\n");
    EXPECT_EQ(all.replies.size(), 1u) << garbage;
    EXPECT_NE(all.error, "") << garbage;
  }
}

TEST(ReplyReaderTest, RefusesTypesThatItDidNotAskFor) {
  for (const char* resp3 : {"%1\r\n+a\r\n+b\r\n", "~1\r\n+a\r\n", ">1\r\n+a\r\n", "_\r\n", "#t\r\n",
                            ",1.5\r\n", "(123\r\n", "=5\r\ntxt:a\r\n"})
    EXPECT_NE(read(resp3).error, "") << resp3;
}

TEST(ReplyReaderTest, StaysWithItsFirstError) {
  ReplyReader reader;
  RedisReply reply;
  reader.feed("?\r\n");
  EXPECT_EQ(reader.next(reply), Status::kError);
  const std::string first(reader.error());
  reader.feed("+OK\r\n");
  EXPECT_EQ(reader.next(reply), Status::kError);
  EXPECT_EQ(reader.error(), first);
}

TEST(ReplyReaderTest, AllowsSevenNestedArraysAndNoMore) {
  const auto nested = [](std::size_t depth) {
    std::string bytes;
    for (std::size_t i = 0; i < depth; ++i)
      bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  EXPECT_EQ(read(nested(ReplyReader::kDepthMax)).replies.size(), 1u);
  EXPECT_NE(read(nested(ReplyReader::kDepthMax + 1)).error, "");
}

TEST(ReplyReaderTest, CountsTheElementsOfAllArraysOfAReply) {
  const ReplyLimits limits{.bytes_max = 1000, .elements_max = 4};
  EXPECT_EQ(read("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*2\r\n*2\r\n", 5, limits).error, "");
  EXPECT_THAT(read("*5\r\n", 99, limits).error, HasSubstr("more elements"));
  EXPECT_THAT(read("*2\r\n*3\r\n", 99, limits).error, HasSubstr("more elements"));
}

TEST(ReplyReaderTest, AllocatesNothingForALengthThatIsOnlyAnnounced) {
  for (const char* header : {"*65536\r\n", "$16777216\r\n", "*65000\r\n*500\r\n"}) {
    ReplyReader reader;
    reader.feed(header);
    RedisReply reply;
    const std::int64_t before = support::heap_bytes();
    EXPECT_EQ(reader.next(reply), Status::kNeedMore);
    EXPECT_LT(support::heap_bytes() - before, 1024) << header;
  }
}

TEST(ReplyReaderTest, RefusesAStringByItsHeaderAlone) {
  const ReplyLimits limits{.bytes_max = 1000, .elements_max = 100};
  EXPECT_EQ(read("$1000\r\n", 99, limits).error, "");
  for (const std::size_t piece : {1u, 2u, 99u}) {
    EXPECT_THAT(read("$1001\r\n", piece, limits).error, HasSubstr("longer string"));
    EXPECT_THAT(read("*2\r\n:1\r\n$99999999999\r\n", piece, limits).error,
                HasSubstr("longer string"));
  }
  // Its header is found also behind so many elements that hiredis has thrown away what it read.
  std::string many = "*100\r\n";
  for (int i = 0; i < 99; ++i)
    many += "$11\r\nhello world\r\n";
  EXPECT_THAT(read(many + "$5000\r\n", 64, {.bytes_max = 4000, .elements_max = 100}).error,
              HasSubstr("longer string"));
}

TEST(ReplyReaderTest, RefusesALineWithoutEnd) {
  const ReplyLimits limits{.bytes_max = 1000, .elements_max = 100};
  EXPECT_EQ(read("+" + std::string(999, 'x'), 100, limits).error, "");
  EXPECT_THAT(read("+" + std::string(1000, 'x'), 100, limits).error, HasSubstr("longer than"));
  EXPECT_THAT(read("$" + std::string(1000, '1'), 100, limits).error, HasSubstr("longer than"));
}

TEST(ReplyReaderTest, RefusesAReplyOfManySmallPieces) {
  std::string bytes = "*90\r\n";
  for (int i = 0; i < 90; ++i)
    bytes += "$11\r\nhello world\r\n";
  const ReplyLimits limits{.bytes_max = 1000, .elements_max = 100};
  EXPECT_THAT(read(bytes, 50, limits).error, HasSubstr("longer than"));
}

TEST(ReplyReaderTest, CountsEachReplyForItself) {
  std::string bytes;
  for (int i = 0; i < 500; ++i)
    bytes += "*2\r\n$11\r\nhello world\r\n:1\r\n";
  const Read all = read(bytes, 77, {.bytes_max = 100, .elements_max = 2});
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.replies.size(), 500u);
}

TEST(ReplyReaderTest, ForgetsAHalfReadReplyWithoutALeak) {
  const std::int64_t before = support::heap_bytes();
  for (std::size_t size = 0; size < kEveryType.size(); ++size)
    static_cast<void>(read(kEveryType.substr(0, size)));
  EXPECT_EQ(support::heap_bytes(), before);
}

TEST(ReplyReaderTest, SaysSoWhenMemoryIsShort) {
  bool succeeded = false;
  std::uint64_t failures = 0;
  for (std::uint64_t allowed = 0; !succeeded; ++allowed) {
    ReplyReader reader;
    RedisReply reply;
    reader.feed("*2\r\n$40\r\n" + std::string(40, 'x') + "\r\n*1\r\n:1\r\n");
    const support::FailingAllocations failing(allowed);
    const Status status = reader.next(reply);
    succeeded = status == Status::kReply;
    if (!succeeded) {
      EXPECT_EQ(status, Status::kError);
      ++failures;
    }
  }
  EXPECT_GT(failures, 2u);
}

}  // namespace
}  // namespace pulsewheel
