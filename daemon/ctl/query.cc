#include <sysexits.h>

#include <algorithm>
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

void read_lines(std::istream& in, std::vector<std::string>& uids) {
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) uids.push_back(std::move(line));
  }
}

/// False with a complaint.
bool read_file(CommandContext& context, const std::string& file, std::vector<std::string>& uids) {
  if (file == "-") {
    read_lines(std::cin, uids);
    return true;
  }
  std::ifstream in(file);
  read_lines(in, uids);
  if (in.eof()) return true;
  complain(context, "cannot read '" + file + "': " + std::strerror(errno), EX_NOINPUT);
  return false;
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

int query(CommandContext& context, std::vector<std::string> uids, const std::string& file) {
  if (!file.empty() && !read_file(context, file, uids)) return EX_NOINPUT;
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
