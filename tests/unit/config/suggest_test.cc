#include "config/suggest.h"

#include <gtest/gtest.h>

namespace pulsewheel {
namespace {

TEST(SuggestTest, FindsTheKeyBehindATypingError) {
  struct Case {
    const char* typed;
    const char* meant;
  };
  const Case cases[] = {
      {"presence.tikc", "presence.tick"},   // swapped
      {"presence.tic", "presence.tick"},    // left out
      {"xpresence.tick", "presence.tick"},  // one too many, in front
      {"resence.tick", "presence.tick"},    // left out in front
      {"presence.ticks", "presence.tick"},  // one too many
      {"precense.timeout-min", "presence.timeout_min"},
      {"server.maxconnections", "server.max_connections"},
      {"max_connections", "server.max_connections"},   // no table
      {"drain.stats_interval", "log.stats_interval"},  // another's table
      {"presence_tick", "presence.tick"},              // a variable's name
      {"listener.port", "listener.0.port"},
      {"listener.7.adress", "listener.7.address"},
      {"sever", "server"},
      {"event", "events"},
  };
  for (const Case& c : cases)
    EXPECT_EQ(nearest_key(c.typed), c.meant) << c.typed;
}

TEST(SuggestTest, IsSilentWhenNothingIsNear) {
  for (const char* typed : {"", "x", "zzzzzzzz", "http.certificate", "presence.keepalive"}) {
    EXPECT_EQ(nearest_key(typed), "") << typed;
  }
  EXPECT_EQ(nearest_key("presence.tick" + std::string(52, 'k')), "");
}

TEST(SuggestTest, DoesNotOfferATableForAKey) {
  EXPECT_EQ(nearest_key("events.x"), "");
}

TEST(SuggestTest, NamesVariables) {
  EXPECT_EQ(variable_of_key("presence.timeout_min"), "PULSEWHEEL_PRESENCE_TIMEOUT_MIN");
  EXPECT_EQ(variable_of_key("listener.0.port"), "PULSEWHEEL_LISTENER_0_PORT");
}

}  // namespace
}  // namespace pulsewheel
