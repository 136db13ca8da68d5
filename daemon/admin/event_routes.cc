#include "daemon/admin/event_routes.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/event_stream.h"
#include "daemon/admin/query_string.h"

namespace pulsewheel {

namespace {

constexpr std::string_view kEventStreamType = "text/event-stream";
constexpr std::string_view kIdField = "id: ";
constexpr std::string_view kDataField = "data: ";
constexpr std::string_view kParams[] = {"cursor", "tail", "uid", "limit", "wait_s"};

/// What a request asks for.
struct Question {
  EventCursor cursor;
  std::string uid;  // empty: everybody
  std::size_t limit = 0;
  std::chrono::seconds wait{0};
};

/// Moves the value of a parsed parameter to `to`, or returns the refusal.
template <class T>
std::optional<Response> take(std::variant<std::uint64_t, Response> parsed, T& to) {
  if (auto* refusal = std::get_if<Response>(&parsed)) return std::move(*refusal);
  to = T(std::get<std::uint64_t>(parsed));
  return std::nullopt;
}

std::optional<Response> take_cursor(const Request& request, const QueryString& query,
                                    const EventSource& source, EventCursor& to) {
  // A browser that comes back repeats the URL it began with; where it is now, it says in the head.
  const std::string_view last_event_id = request.field("Last-Event-ID");
  const std::optional<std::string_view> text =
      last_event_id.empty() ? query.text("cursor") : std::optional(last_event_id);
  std::uint64_t tail = 0;
  if (auto refusal = take(query.number("tail", 0, 0, UINT64_MAX), tail)) return refusal;
  if (!text) {
    to = source.back(tail);
    return std::nullopt;
  }
  if (last_event_id.empty() && query.text("tail")) {
    return error_response(http::status::bad_request, "bad_parameter",
                          "a request begins behind a cursor or with a tail, not both");
  }
  const std::optional<EventCursor> cursor = EventCursor::parse(*text);
  if (!cursor) {
    return error_response(http::status::bad_request, "bad_cursor",
                          "a cursor is EPOCH-SEQ, as 3-17: two whole numbers, as an earlier answer "
                          "has given them");
  }
  to = *cursor;
  return std::nullopt;
}

std::variant<Question, Response> parse(const Request& request, const EventSource& source,
                                       const EventRouteLimits& limits) {
  auto parsed = QueryString::parse(request.query, kParams);
  if (auto* refusal = std::get_if<Response>(&parsed)) return std::move(*refusal);
  const auto& query = std::get<QueryString>(parsed);
  Question question;
  if (auto refusal = take_cursor(request, query, source, question.cursor)) return *refusal;
  if (auto refusal =
          take(query.number("limit", limits.page_default, 1, limits.page_max), question.limit)) {
    return *refusal;
  }
  const auto wait_max = static_cast<std::uint64_t>(limits.wait_max.count());
  if (auto refusal = take(query.number("wait_s", 0, 0, wait_max), question.wait)) return *refusal;
  if (const auto uid = query.text("uid")) {
    if (uid->empty() || uid->size() > limits.uid_bytes_max) {
      return error_response(http::status::bad_request, "bad_uid",
                            "a uid has 1 to " + std::to_string(limits.uid_bytes_max) +
                                " bytes after decoding, this one has " +
                                std::to_string(uid->size()));
    }
    question.uid = *uid;
  }
  return question;
}

/// A page of JSON in the making. The events are the data of the source's text, as it stands.
class Page {
 public:
  Page(EventCursor cursor, std::size_t limit) : cursor_(cursor), limit_(limit) {}

  [[nodiscard]] bool empty() const noexcept { return events_ == 0; }
  [[nodiscard]] EventCursor cursor() const noexcept { return cursor_; }

  /// Looks on in the source until the page is full or there is nothing more.
  void fill(EventSource& source, std::string_view uid, std::size_t texts_max) {
    more_ = true;
    for (std::size_t texts = 0; texts < texts_max && events_ < limit_; ++texts) {
      const EventSource::After after = source.after(cursor_, uid);
      if (const auto* lost = std::get_if<EventSource::Lost>(&after)) {
        add(resync_json(*lost), lost->newest);
      } else if (const auto* text = std::get_if<EventSource::Text>(&after)) {
        add_text(*text);
      } else {
        more_ = false;
        return;
      }
    }
  }

  [[nodiscard]] Response response() && {
    Response response;
    response.content_type = kJsonType;
    response.body = R"({"events":[)" + std::move(json_) + R"(],"cursor":")" + cursor_.to_string() +
                    R"(","more":)" + (more_ ? "true" : "false") + "}\n";
    return response;
  }

 private:
  void add(std::string_view event, EventCursor last) {
    if (events_++ > 0) json_ += ',';
    json_.append(event);
    cursor_ = last;
  }

  void add_text(const EventSource::Text& text) {
    EventCursor id = cursor_;
    for (std::string_view rest = text.sse; !rest.empty();) {
      if (events_ == limit_) return;
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.starts_with(kIdField)) {
        id = EventCursor::parse(line.substr(kIdField.size())).value_or(id);
      } else if (line.starts_with(kDataField)) {
        add(line.substr(kDataField.size()), id);
      }
    }
    cursor_ = text.last;
  }

  std::string json_;
  std::size_t events_ = 0;
  EventCursor cursor_;  // behind the last event that was added or skipped
  const std::size_t limit_;
  bool more_ = false;
};

/// Answers requests for pages, at once or when there is something to tell.
class Pages : public std::enable_shared_from_this<Pages> {
 public:
  Pages(EventSource& source, const EventRouteLimits& limits) : source_(source), limits_(limits) {}

  void answer(Question question, const Responder& respond) {
    Page page(question.cursor, question.limit);
    page.fill(source_, question.uid, limits_.texts_max);
    if (!page.empty() || question.wait.count() == 0) return respond(std::move(page).response());
    if (waits_ >= limits_.waits_max) {
      Response busy = error_response(http::status::service_unavailable, "too_many_waiting",
                                     "this port lets " + std::to_string(limits_.waits_max) +
                                         " requests for events wait at a time");
      busy.fields.emplace_back(http::field::retry_after, "1");
      return respond(std::move(busy));
    }
    question.cursor = page.cursor();
    std::make_shared<LongPoll>(shared_from_this(), std::move(question), respond)->start();
  }

 private:
  /// A request that waits. Kept by its timer.
  class LongPoll : public std::enable_shared_from_this<LongPoll> {
   public:
    LongPoll(std::shared_ptr<Pages> pages, Question question, Responder respond)
        : pages_(std::move(pages)),
          page_(question.cursor, question.limit),
          question_(std::move(question)),
          respond_(std::move(respond)),
          limit_(pages_->source_.executor(), question_.wait) {
      ++pages_->waits_;
    }
    ~LongPoll() { --pages_->waits_; }
    LongPoll(const LongPoll&) = delete;
    LongPoll& operator=(const LongPoll&) = delete;

    void start() {
      limit_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
        if (!error) self->finish();
      });
      wait();
    }

   private:
    void wait() {
      wait_.emplace(pages_->source_, page_.cursor(), [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->look();
      });
    }
    void look() {
      page_.fill(pages_->source_, question_.uid, pages_->limits_.texts_max);
      page_.empty() ? wait() : finish();
    }
    void finish() {
      wait_.reset();
      limit_.cancel();
      respond_(std::move(page_).response());
    }

    const std::shared_ptr<Pages> pages_;
    Page page_;
    const Question question_;
    const Responder respond_;
    boost::asio::steady_timer limit_;
    std::optional<EventWait> wait_;
  };

  EventSource& source_;
  const EventRouteLimits limits_;
  std::size_t waits_ = 0;
};

/// Whether the client takes Server-Sent Events: browsers' EventSource says so, and so does
/// `curl -H 'Accept: text/event-stream'`.
bool wants_stream(const Request& request) {
  const std::string_view accept = request.field("Accept");
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  return std::search(accept.begin(), accept.end(), kEventStreamType.begin(), kEventStreamType.end(),
                     same) != accept.end();
}

std::vector<ApiParam> event_params() {
  using Kind = ApiParam::Kind;
  return {
      {"cursor", "EPOCH-SEQ of an answer before: behind it this one begins", "", Kind::kText},
      {"tail", "Begin with so many of the newest events, where there is no cursor", "10",
       Kind::kNumber},
      {"uid", "Only what concerns this user, percent-encoded", "alice%20%2F%00", Kind::kText},
      {"limit", "Events in an answer at most: 1 to 2000, usually 500", "100", Kind::kNumber},
      {"wait_s", "Seconds to wait for an event where there is none: 0 to 60", "0", Kind::kNumber}};
}

}  // namespace

void add_event_routes(ApiTable& table, EventSource& source, const EventRouteLimits& limits) {
  const auto pages = std::make_shared<Pages>(source, limits);
  const auto handler = [&source, limits, pages](const Request& request, const Responder& respond) {
    auto parsed = parse(request, source, limits);
    if (auto* refusal = std::get_if<Response>(&parsed)) return respond(std::move(*refusal));
    auto& question = std::get<Question>(parsed);
    if (!wants_stream(request)) return pages->answer(std::move(question), respond);
    Response response;
    response.content_type = kEventStreamType;
    response.stream =
        std::make_shared<EventStream>(source, question.cursor, std::move(question.uid));
    respond(std::move(response));
  };
  constexpr std::chrono::seconds kSlack{5};
  table.push_back(
      {.pattern = "/v1/events",
       .summary = "The edges behind a cursor; with Accept: text/event-stream as a stream",
       .query = event_params(),
       .answer = "EventPage",
       .refusals = {http::status::bad_request, http::status::service_unavailable},
       .options = {.answer_timeout = limits.wait_max + kSlack},
       .handler = handler});
}

}  // namespace pulsewheel
