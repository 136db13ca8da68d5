#include "daemon/ctl/sse.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace pulsewheel::ctl {
namespace {

using testing::ElementsAre;

class SseReaderTest : public testing::Test {
 protected:
  std::vector<std::string> events_;  // "id|event|data"
  SseReader reader_{
      [this](const SseEvent& e) { events_.push_back(e.id + "|" + e.event + "|" + e.data); }};
};

TEST_F(SseReaderTest, CutsEventsAtEmptyLines) {
  EXPECT_TRUE(reader_.feed("id: 3-1\ndata: {\"a\":1}\n\nid: 3-2\nevent: resync\ndata: x\n\n"));
  EXPECT_THAT(events_, ElementsAre("3-1||{\"a\":1}", "3-2|resync|x"));
}

TEST_F(SseReaderTest, TakesBytesOneByOne) {
  for (const char c : std::string("id:7\r\ndata:a\r\ndata: b\r\n\r\n"))
    EXPECT_TRUE(reader_.feed({&c, 1}));
  EXPECT_THAT(events_, ElementsAre("7||a\nb"));
}

TEST_F(SseReaderTest, PassesOverCommentsAndEventsWithoutData) {
  EXPECT_TRUE(reader_.feed(": still here\n\nevent: nothing\n\nretry: 5\ndata\n\n"));
  EXPECT_THAT(events_, ElementsAre("||"));
}

TEST_F(SseReaderTest, KeepsTheLastId) {
  EXPECT_TRUE(reader_.feed("id: 1\ndata: a\n\ndata: b\n\n"));
  EXPECT_THAT(events_, ElementsAre("1||a", "1||b"));
}

TEST_F(SseReaderTest, GoesOnBehindTheLastBlockThatCameWhole) {
  EXPECT_TRUE(reader_.feed("id: 3-7\n\n"));
  EXPECT_EQ(reader_.last_event_id(), "3-7") << "a place without an event";
  EXPECT_TRUE(reader_.feed("id: 3-8\ndata: {}\n"));
  EXPECT_EQ(reader_.last_event_id(), "3-7") << "half an event";
  EXPECT_TRUE(reader_.feed("\n"));
  EXPECT_EQ(reader_.last_event_id(), "3-8");
}

TEST_F(SseReaderTest, GivesUpOnALineThatNeverEnds) {
  EXPECT_TRUE(reader_.feed(std::string(SseReader::kLineBytesMax, 'a')));
  EXPECT_FALSE(reader_.feed("a"));
}

}  // namespace
}  // namespace pulsewheel::ctl
