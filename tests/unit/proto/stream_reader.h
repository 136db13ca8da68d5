// StreamReader: a server's read loop round next_frame(), as a test drives it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/frame.h"
#include "tests/unit/proto/bytes.h"

namespace pulsewheel::proto {

/// Takes a stream in pieces and keeps a list of what came out: "login:PAYLOAD", then at most one
/// "error:NAME". A LOGIN of any content counts as accepted. Checks what next_frame() promises
/// about sizes as it goes.
class StreamReader {
 public:
  explicit StreamReader(const Limits& limits = {}) : limits_(limits) {}

  void feed(std::span<const std::byte> piece) {
    buffer_.insert(buffer_.end(), piece.begin(), piece.end());
    while (!failed_) {
      const std::span<const std::byte> rest(buffer_);
      const NextFrame next = next_frame(rest.subspan(consumed_), stage_, limits_);
      if (next.status == NextFrame::Status::kNeedMore) {
        EXPECT_GT(next.size, rest.size() - consumed_) << "asks for what is there";
        return;
      }
      if (next.status == NextFrame::Status::kError) {
        events_.push_back("error:" + std::string(to_string(next.error)));
        failed_ = true;
        return;
      }
      const Frame& frame = next.frame;
      EXPECT_EQ(next.size, kHeaderSize + frame.payload.size());
      EXPECT_EQ(frame.payload.data(), rest.data() + consumed_ + kHeaderSize) << "not a view";
      events_.push_back(std::string(to_string(frame.header.type)) + ":" + to_hex(frame.payload));
      consumed_ += next.size;
      if (frame.header.type == FrameType::kLogin) stage_ = Stage::kAfterLogin;
    }
  }

  [[nodiscard]] const std::vector<std::string>& events() const { return events_; }
  [[nodiscard]] std::size_t unread() const { return buffer_.size() - consumed_; }

 private:
  Limits limits_;
  Stage stage_ = Stage::kBeforeLogin;
  std::vector<std::byte> buffer_;
  std::size_t consumed_ = 0;
  bool failed_ = false;
  std::vector<std::string> events_;
};

}  // namespace pulsewheel::proto
