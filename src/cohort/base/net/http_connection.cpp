#include "cohort/base/net/http_connection.h"

#include <strings.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/http_beast.h"

namespace cohort {
namespace {

namespace http = beast::http;

constexpr std::size_t kReadAtOnce = 16 * 1024;
constexpr std::size_t kSendAtOnce = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kSendTime{5};  // of a stream that is slow to make its bytes
constexpr std::size_t kLeastBudget = 4 * 1024;     // what a piece costs, however small
constexpr int kNoContent = 204, kNotModified = 304, kBadRequest = 400, kTooLarge = 413,
              kHeadTooLarge = 431, kInternalError = 500;

int status_of(const boost::beast::error_code& error) {
  if (error == http::error::body_limit) return kTooLarge;
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return kHeadTooLarge;
  return kBadRequest;
}

std::string reason_of(int status) {
  return std::string(http::obsolete_reason(static_cast<http::status>(status)));
}

// What decides who asks for what must not be said twice: a proxy may read the other one.
bool says_twice(const HttpHeaders& headers) {
  for (const char* name : {"host", "authorization", "origin", "content-type"})
    if (std::ranges::count(headers, std::string_view(name), &HttpHeaders::value_type::first) > 1)
      return true;
  return false;
}

// Of an answer; `size`: of its body, where that is known.
std::string head_of(const HttpResponse& response, std::optional<std::uint64_t> size,
                    bool is_chunked, bool keep) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  const bool is_empty = response.status == kNoContent || response.status == kNotModified;
  if (!is_empty) text += header_line("Content-Type", response.type);
  for (const auto& [name, value] : response.headers) text += header_line(name, value);
  if (!is_empty && size) text += header_line("Content-Length", std::to_string(*size));
  if (!is_empty && is_chunked) text += header_line("Transfer-Encoding", "chunked");
  return text + header_line("Connection", keep ? "keep-alive" : "close") + "\r\n";
}

}  // namespace

class HttpConnection::Parser : public http::request_parser<beast::PieceBody> {
 public:
  explicit Parser(std::size_t head) {
    header_limit(static_cast<std::uint32_t>(head));
    body_limit(std::numeric_limits<std::uint64_t>::max());  // until the head is known
  }
};

HttpConnection::HttpConnection(std::unique_ptr<Channel> channel, HttpPeer peer,
                               const HttpLimits& limits, const HttpHandlers& handlers,
                               std::function<void()> wake)
    : channel_(std::move(channel)),
      peer_(std::move(peer)),
      limits_(limits),
      handlers_(handlers),
      wake_(std::move(wake)),
      parser_(std::make_unique<Parser>(limits.head)) {}

HttpConnection::~HttpConnection() = default;

HttpConnection::Phase HttpConnection::phase() const {
  switch (state_) {
    case State::greeting:
      return Phase::request;
    case State::reading:
      if (sink_) return Phase::upload;
      return served_ > 0 && input_.empty() && !parser_->got_some() ? Phase::idle : Phase::request;
    case State::thinking:
      return Phase::thinking;
    case State::answering:
      return stream_ ? Phase::stream : Phase::answer;
    case State::ending:
      return Phase::ending;
    case State::over:
      break;
  }
  return Phase::over;
}

std::uint32_t HttpConnection::wanted_events() const {
  std::uint32_t events = 0;
  if (state_ == State::greeting) events |= channel_->waits_to_write() ? EPOLLOUT : EPOLLIN;
  if (state_ == State::reading || state_ == State::ending) events |= EPOLLIN;
  if (has_output() || (stream_ && !is_waiting())) events |= EPOLLOUT;
  if (stream_) events |= EPOLLRDHUP;
  return events;
}

std::size_t HttpConnection::pending() const {
  return input_.size() + output_.size() + request_.body.size();
}

void HttpConnection::advance(std::uint32_t events) {
  is_busy_ = false;
  if (state_ == State::greeting && !greet()) return;
  if (state_ == State::thinking && events & (EPOLLHUP | EPOLLERR)) state_ = State::over;
  // A stream whose reader has closed its side has no reader any more.
  if (stream_ && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) state_ = State::over;
  if (state_ == State::answering || (state_ == State::reading && has_output())) send();
  if (state_ == State::reading && !input_.empty()) parse();
  if (state_ == State::reading && read()) parse();
  if (state_ == State::ending && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read();
  if (state_ == State::reading && !input_.empty() && !parser_->got_some()) is_busy_ = true;
}

void HttpConnection::wake() {
  if (state_ == State::thinking) {
    take_later();
    if (state_ != State::thinking) advance(0);
    return;
  }
  if (!is_waiting()) return;
  then_ = BodyStream::Then::more();
  advance(0);
}

bool HttpConnection::greet() {
  const IoResult result = channel_->greet();
  if (result.status == IoResult::Status::progress)
    state_ = State::reading;
  else if (result.status != IoResult::Status::would_block)
    state_ = State::over;
  return state_ == State::reading;
}

// True when there is more to parse.
bool HttpConnection::read() {
  std::array<char, kReadAtOnce> buffer;
  const iovec place{buffer.data(), buffer.size()};
  const IoResult result = channel_->read(&place, 1);
  if (result.status == IoResult::Status::would_block) return false;
  if (result.status != IoResult::Status::progress) {
    state_ = State::over;
    return false;
  }
  moved_ += result.count;
  is_busy_ = result.count == buffer.size();  // TLS may hold the rest of what the socket had
  if (state_ == State::reading) input_.append(buffer.data(), result.count);
  if (state_ == State::ending && (thrown_away_ += result.count) > limits_.body)
    state_ = State::over;
  return state_ == State::reading;
}

void HttpConnection::parse() {
  try {
    parse_more();
  } catch (const std::exception& error) {
    if (state_ != State::reading) throw;  // the connection's own failure
    log::warning("{} could not answer: {}", handlers_.name, error.what());
    refuse(kInternalError);
  }
}

void HttpConnection::parse_more() {
  boost::beast::error_code error;
  if (!parser_->is_header_done()) {
    error = beast::feed(*parser_, input_);
    if (!error && parser_->is_header_done() && !take_head()) return;
  }
  if (!error && parser_->is_header_done()) {
    error = beast::feed(*parser_, input_);
    if (!take_body()) return;
  }
  if (error) return refuse(status_of(error));
  // A line without an end: of the head, of a chunk's size, of the trailer.
  if (input_.size() > limits_.head && !parser_->is_done()) return refuse(kHeadTooLarge);
  if (!parser_->is_done()) return;
  answer(sink_ ? sink_->finish() : handlers_.handle(std::move(request_)));
}

// False when the head was enough for an answer.
bool HttpConnection::take_head() {
  const auto& message = parser_->get();
  request_ = {.method = std::string(message.method_string()),
              .target = std::string(message.target()),
              .headers = beast::headers_of(message),
              .peer = peer_,
              .wake = wake_};
  parser_->eager(true);
  // No other coding than chunks is undone here.
  const std::string* coding = find_header(request_.headers, "transfer-encoding");
  if (says_twice(request_.headers) || (coding && ::strcasecmp(coding->c_str(), "chunked") != 0))
    return refuse(kBadRequest), false;
  HttpDecision decision;
  if (handlers_.on_head) decision = handlers_.on_head(request_);
  if (decision.refusal) return answer(std::move(*decision.refusal)), false;
  sink_ = std::move(decision.sink);
  const std::uint64_t limit = sink_ ? sink_->limit() : limits_.body;
  if (parser_->content_length().value_or(0) > limit) return refuse(kTooLarge), false;
  parser_->body_limit(limit);
  if (!parser_->is_done() && message[http::field::expect] == "100-continue") {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    send();
  }
  return state_ == State::reading;
}

// What the parser has of the body goes on. False when that was enough for an answer.
bool HttpConnection::take_body() {
  std::string& body = parser_->get().body();
  if (sink_ && !body.empty()) {
    if (auto early = sink_->write(body)) return answer(std::move(*early)), false;
  } else {
    request_.body += body;
  }
  body.clear();
  return true;
}

void HttpConnection::refuse(int status) {
  is_refused_ = true;
  answer({.status = status, .body = reason_of(status) + "\n", .type = "text/plain"});
}

void HttpConnection::take_later() {
  std::optional<HttpResponse> response;
  try {
    response = later_->take();
  } catch (const std::exception& error) {
    log::warning("{} could not answer: {}", handlers_.name, error.what());
    return refuse(kInternalError);
  }
  if (response) answer(*std::move(response));
}

void HttpConnection::answer(HttpResponse response) {
  later_ = std::move(response.later);
  if (later_) {
    state_ = State::thinking;
    return;
  }
  const bool has_head = parser_->is_header_done();
  const bool is_old = has_head && parser_->get().version() < 11;  // knows no chunks
  const bool has_body = response.status != kNoContent && response.status != kNotModified &&
                        !(has_head && parser_->get().method() == http::verb::head);
  const std::optional<std::uint64_t> size =
      response.stream ? response.stream->size() : response.body.size();
  const bool is_chunked = !size && !is_old;
  // What is left of a request cannot be told from the next one.
  const bool keep = !is_refused_ && parser_->is_done() && parser_->keep_alive() &&
                    served_ + 1 < limits_.requests && (size || is_chunked || !has_body);
  output_ += head_of(response, size, is_chunked, keep);
  if (has_body) {
    output_ += response.body;
    stream_ = std::move(response.stream);
    then_ = BodyStream::Then::more();
    stream_left_ = size;
    is_chunked_ = is_chunked;
  }
  ++served_;
  keeps_ = keep;
  parser_.reset();
  request_ = {};
  sink_.reset();
  if (!keep) input_ = {};
  state_ = State::answering;
  send();
}

void HttpConnection::send() {
  std::size_t budget = kSendAtOnce;
  const auto turn_ends = std::chrono::steady_clock::now() + kSendTime;
  while (true) {
    while (has_output()) {
      const iovec place{output_.data() + sent_, output_.size() - sent_};
      const IoResult result = channel_->write(&place, 1);
      if (result.status == IoResult::Status::would_block) return;
      if (result.status != IoResult::Status::progress) {
        state_ = State::over;
        return;
      }
      sent_ += result.count;
      moved_ += result.count;
    }
    output_.clear();
    sent_ = 0;
    if (state_ != State::answering) return;
    if (!stream_) return end_answer();
    if (is_waiting() || budget == 0 || std::chrono::steady_clock::now() > turn_ends) return;
    pull();
    budget -= std::min(budget, std::max(output_.size(), kLeastBudget));
    if (state_ == State::over) return;
  }
}

// Puts the next piece of the stream into output_.
void HttpConnection::pull() {
  using Kind = BodyStream::Then::Kind;
  std::string piece;
  try {
    then_ = stream_->next(piece);
    if (stream_left_) {
      if (piece.size() > *stream_left_ ||
          (then_.kind == Kind::end && piece.size() != *stream_left_))
        throw Error("a stream has not the length that it said");
      *stream_left_ -= piece.size();
    }
  } catch (const std::exception& error) {
    log::warning("{} broke an answer off: {}", handlers_.name, error.what());
    state_ = State::over;
    return;
  }
  if (!is_chunked_) {
    output_ += piece;
  } else {
    if (!piece.empty()) output_ += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    if (then_.kind == Kind::end) output_ += "0\r\n\r\n";
  }
  if (then_.kind == Kind::end) stream_.reset();
}

void HttpConnection::end_answer() {
  if (keeps_) {
    parser_ = std::make_unique<Parser>(limits_.head);
    state_ = State::reading;
  } else {
    channel_->finish();
    state_ = State::ending;
  }
}

}  // namespace cohort
