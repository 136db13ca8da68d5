#include "daemon/admin/json_body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pulsewheel {
namespace {

using Json = nlohmann::json;
using Kind = JsonMember::Kind;

/// {"uids": [strings], "for_ms": number}
std::string form_of(std::span<const JsonMember> members) {
  std::string form;
  for (const JsonMember& member : members) {
    if (!form.empty()) form += ", ";
    form += '"' + std::string(member.name) + "\": ";
    form += member.kind == Kind::kNumber ? "whole number" : "[strings]";
  }
  return "{" + form + "}";
}

}  // namespace

/// Called by the parser with one thing after the other. Returns false at the first that does not
/// belong there, with `wrong_` saying so.
class JsonBody::Reader final : public nlohmann::json_sax<Json> {
 public:
  Reader(std::span<const JsonMember> members, JsonBody& body) : members_(members), body_(body) {}

  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

  bool start_object(std::size_t) override {
    if (std::exchange(in_object_, true)) return refuse("an object does not belong there");
    return true;
  }
  bool key(std::string& name) override {
    const auto known = std::find_if(members_.begin(), members_.end(),
                                    [&name](const JsonMember& m) { return m.name == name; });
    if (known == members_.end())
      return refuse("there is a member of another name, " + in_quotes(name));
    if (has(known->name)) return refuse(in_quotes(known->name) + " is there twice");
    member_ = &*known;
    return true;
  }
  bool end_object() override {
    for (const JsonMember& member : members_) {
      if (member.required && !has(member.name))
        return refuse(in_quotes(member.name) + " is missing");
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (member_ == nullptr || member_->kind != Kind::kTexts || in_list_) {
      return refuse("a list does not belong there");
    }
    in_list_ = true;
    body_.texts_.push_back({member_->name, {}});
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool string(std::string& text) override {
    if (!in_list_) return refuse("a string does not belong there");
    auto& list = body_.texts_.back().second;
    if (list.size() == member_->max) {
      too_many_ = true;
      return refuse(in_quotes(member_->name) + " may hold " + std::to_string(member_->max) +
                    " strings");
    }
    list.push_back(std::move(text));
    return true;
  }
  bool number_unsigned(std::uint64_t number) override {
    if (!expects_number()) return refuse("a number does not belong there");
    if (number < member_->min || number > member_->max) return refuse_number();
    body_.numbers_.emplace_back(member_->name, number);
    return true;
  }
  bool number_integer(std::int64_t) override { return refuse_number(); }
  bool number_float(double, const std::string&) override { return refuse_number(); }
  bool null() override { return refuse("null does not belong there"); }
  bool boolean(bool) override { return refuse("true and false do not belong there"); }
  bool binary(Json::binary_t&) override { return refuse("binary JSON"); }
  bool parse_error(std::size_t position, const std::string&,
                   const Json::exception& error) override {
    const bool out_of_range = dynamic_cast<const Json::out_of_range*>(&error) != nullptr;
    return refuse(out_of_range ? "a number is out of range"
                               : "it is no JSON from byte " + std::to_string(position) + " on");
  }

  [[nodiscard]] bool too_many() const noexcept { return too_many_; }

 private:
  [[nodiscard]] bool expects_number() const noexcept {
    return member_ != nullptr && member_->kind == Kind::kNumber && !in_list_;
  }
  [[nodiscard]] bool has(std::string_view name) const {
    const auto is_it = [name](const auto& pair) { return pair.first == name; };
    return std::any_of(body_.numbers_.begin(), body_.numbers_.end(), is_it) ||
           std::any_of(body_.texts_.begin(), body_.texts_.end(), is_it);
  }
  bool refuse_number() {
    if (!expects_number()) return refuse("a number does not belong there");
    return refuse(in_quotes(member_->name) + " must be a whole number from " +
                  std::to_string(member_->min) + " to " + std::to_string(member_->max));
  }
  bool refuse(std::string what) {
    wrong_ = std::move(what);
    return false;
  }

  const std::span<const JsonMember> members_;
  JsonBody& body_;
  const JsonMember* member_ = nullptr;  // whose value comes
  bool in_object_ = false;
  bool in_list_ = false;
  bool too_many_ = false;
  std::string wrong_;
};

std::variant<JsonBody, Response> JsonBody::parse(std::string_view text,
                                                 std::span<const JsonMember> members) {
  JsonBody body;
  Reader reader(members, body);
  if (Json::sax_parse(text.empty() ? "{}" : text, &reader)) return body;
  return error_response(
      http::status::bad_request, reader.too_many() ? "too_many" : "bad_json",
      "the body must be a JSON object like " + form_of(members) + ": " + reader.wrong());
}

std::optional<std::uint64_t> JsonBody::number(std::string_view name) const {
  for (const auto& [known, value] : numbers_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> JsonBody::take_texts(std::string_view name) {
  for (auto& [known, texts] : texts_) {
    if (known == name) return std::move(texts);
  }
  return {};
}

}  // namespace pulsewheel
