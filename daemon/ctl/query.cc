#include <sysexits.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <span>
#include <utility>

#include "daemon/ctl/commands.h"

namespace pulsewheel::ctl {
namespace {

/// What the daemon takes in one call, in number and, with some room, in bytes.
constexpr std::size_t kUidsPerCall = 10'000;
constexpr std::size_t kBytesPerCall = 1'000'000;

/// A uid of 128 bytes has 384, if each of them is encoded.
constexpr std::size_t kLineBytesMax = 1'024;

/// Up to the end, or to a line that is too long: then false.
bool read_lines(std::istream& in, std::vector<std::string>& uids) {
  std::array<char, kLineBytesMax + 1> buffer{};
  while (in.getline(buffer.data(), buffer.size())) {
    // A line may hold a NUL. The count has the end of the line, where there is one.
    auto size = static_cast<std::size_t>(in.gcount());
    if (!in.eof()) --size;
    std::string line(buffer.data(), size);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) uids.push_back(std::move(line));
  }
  return in.eof() || in.bad() || in.gcount() == 0;
}

/// kExitOk, or another code with a complaint.
int read_file(CommandContext& context, const std::string& file, std::vector<std::string>& uids) {
  std::ifstream opened;
  if (file != "-") opened.open(file);
  std::istream& in = file == "-" ? std::cin : opened;
  if (!read_lines(in, uids)) {
    return complain(context,
                    "'" + file + "' has a line of more than " + std::to_string(kLineBytesMax) +
                        " bytes: write one UID on each",
                    EX_USAGE);
  }
  if (in.eof()) return kExitOk;
  return complain(context, "cannot read '" + file + "': " + std::strerror(errno), EX_NOINPUT);
}

/// How many of `uids` go into one call. At least one.
std::size_t count_for_call(std::span<const std::string> uids) {
  static constexpr std::size_t kQuotes = 3;  // "",
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < std::min(uids.size(), kUidsPerCall)) {
    bytes += uids[count].size() + kQuotes;
    if (count > 0 && bytes > kBytesPerCall) break;
    ++count;
  }
  return count;
}

std::string devices_text(const Json& user) {
  std::string out;
  for (const Json& device : user.value("devices", Json::array()))
    out += (out.empty() ? "" : ",") + to_text(device);
  return out.empty() ? "-" : out;
}

std::string table_of(const Json& users) {
  Rows rows{{"UID", "STATE", "SINCE", "LAST SEEN", "SESSIONS", "DEVICES"}};
  for (const Json& user : users) {
    rows.push_back({member(user, "uid"), member(user, "state"), time_text(user, "since_ms"),
                    time_text(user, "last_seen_ms"), member(user, "sessions"), devices_text(user)});
  }
  return in_table(rows);
}

}  // namespace

int query(CommandContext& context, std::vector<std::string> uids,
          const std::optional<std::string>& file) {
  if (const int code = file ? read_file(context, *file, uids) : kExitOk; code != kExitOk)
    return code;
  for (std::string& uid : uids) {
    auto encoded = canonical_uid(context, uid);
    if (!encoded) return EX_USAGE;
    uid = std::move(*encoded);
  }
  Json users = Json::array();
  for (std::span<const std::string> left = uids; !left.empty();) {
    const auto part = left.first(count_for_call(left));
    left = left.subspan(part.size());
    const Question question{.method = Question::Method::kPost,
                            .target = "/v1/users:query",
                            .body = dump({{"uids", part}}),
                            .last_event_id = {}};
    int exit_code = kExitOk;
    auto body = object_in(context, ask(context.access, question, context.timeout), exit_code);
    if (!body) return exit_code;
    for (Json& user : (*body)["users"])
      users.push_back(std::move(user));
  }
  context.out << (context.json ? dump({{"users", users}}) + "\n" : table_of(users));
  return kExitOk;
}

}  // namespace pulsewheel::ctl
