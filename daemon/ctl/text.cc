#include "daemon/ctl/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace pulsewheel::ctl {
namespace {

void flatten(const std::string& path, const Json& value, Lines& lines) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) {
      flatten(path.empty() ? key : path + "." + key, inner, lines);
    }
  } else if (value.is_array() && !value.empty()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      flatten(path + "[" + std::to_string(i) + "]", value[i], lines);
    }
  } else {
    lines.emplace_back(to_text(path), to_text(value));
  }
}

}  // namespace

std::string dump(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string to_text(const Json& value) {
  if (!value.is_string()) return dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(),
                                                  [](char c) { return c >= 0x20 && c < 0x7f; });
  return plain ? text : dump(value);
}

std::string member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? "?" : to_text(*found);
}

double number(const Json& object, const Json::json_pointer& where) {
  if (!object.contains(where) || !object.at(where).is_number()) return 0;
  return object.at(where).get<double>();
}

std::string time_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return "never";
  const auto ms = found->get<std::int64_t>();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &utc);
  std::string fraction = std::to_string(ms % 1000);
  fraction.insert(0, 3 - std::min<std::size_t>(3, fraction.size()), '0');
  return std::string(text.data()) + "." + fraction + " UTC";
}

std::string seconds_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return "?";
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", found->get<double>() / 1000);
  return text.data();
}

std::string in_columns(const Lines& lines) {
  std::size_t width = 0;
  for (const auto& [name, value] : lines)
    width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, value] : lines) {
    out.append(name).append(width + 2 - name.size(), ' ').append(value).append("\n");
  }
  return out;
}

std::string in_table(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      out.append(row[i]).append(widths[i] + 2 - row[i].size(), ' ');
    if (!row.empty()) out += row.back();
    out += '\n';
  }
  return out;
}

std::string to_lines(const Json& value) {
  Lines lines;
  flatten("", value, lines);
  return in_columns(lines);
}

}  // namespace pulsewheel::ctl
