#include "cohort/base/net/http_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"

namespace cohort {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kReadAtOnce = 16 * 1024;
constexpr int kBadRequest = 400, kTooLarge = 413, kHeadTooLarge = 431;

int status_of(const boost::beast::error_code& error) {
  if (error == http::error::body_limit) return kTooLarge;
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return kHeadTooLarge;
  return kBadRequest;
}

}  // namespace

class HttpConnection::Parser : public http::request_parser<http::string_body> {};

HttpConnection::HttpConnection(UniqueFd fd, const HttpLimits& limits)
    : fd_(std::move(fd)), limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->header_limit(static_cast<std::uint32_t>(limits_.head));
  parser_->body_limit(limits_.body);
  parser_->eager(true);
}

HttpConnection::~HttpConnection() = default;

std::uint32_t HttpConnection::wanted_events() const {
  std::uint32_t events = 0;
  if (state_ == State::reading || state_ == State::ending) events |= EPOLLIN;
  if (!output_.empty()) events |= EPOLLOUT;
  return events;
}

std::size_t HttpConnection::pending() const {
  return input_.size() + output_.size() + (parser_ ? parser_->get().body().size() : 0);
}

bool HttpConnection::advance(std::uint32_t events) {
  if (!output_.empty() && events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) write();
  if (state_ == State::reading && events & (EPOLLIN | EPOLLHUP | EPOLLERR) && read()) parse();
  if (state_ == State::ending && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read();
  return state_ == State::reading && (mistake_ != 0 || parser_->is_done());
}

// True when there is more to parse.
bool HttpConnection::read() {
  std::array<char, kReadAtOnce> buffer;
  const IoResult result = read_some(fd(), buffer.data(), buffer.size());
  if (result.status == IoResult::Status::would_block) return false;
  if (result.status != IoResult::Status::progress) {
    state_ = State::over;
    return false;
  }
  if (state_ == State::reading) input_.append(buffer.data(), result.count);
  if (state_ == State::ending && (thrown_away_ += result.count) > limits_.body)
    state_ = State::over;
  return state_ == State::reading;
}

void HttpConnection::parse() {
  boost::beast::error_code error;
  std::size_t used = 0;
  while (used < input_.size() && !parser_->is_done()) {
    const auto rest = boost::asio::buffer(input_.data() + used, input_.size() - used);
    const std::size_t count = parser_->put(rest, error);
    used += count;
    if (error == http::error::need_more) {
      error = {};
      if (count == 0) break;
    }
    if (error) break;
  }
  input_.erase(0, used);
  if (error) {
    mistake_ = status_of(error);
  } else if (input_.size() > limits_.head && !parser_->is_done()) {
    mistake_ = kHeadTooLarge;  // a line without an end: of a chunk's size, of the trailer
  } else if (parser_->is_header_done() && !parser_->is_done() && !has_continued_ &&
             parser_->get()[http::field::expect] == "100-continue") {
    has_continued_ = true;
    output_ = "HTTP/1.1 100 Continue\r\n\r\n";
    write();
  }
}

HttpResponse HttpConnection::mistake() const {
  return {.status = mistake_,
          .body = std::string(http::obsolete_reason(static_cast<http::status>(mistake_))) + "\n",
          .type = "text/plain"};
}

HttpRequest HttpConnection::take_request() {
  auto& message = parser_->get();
  return {.method = std::string(message.method_string()),
          .target = std::string(message.target()),
          .body = std::move(message.body())};
}

void HttpConnection::answer(const HttpResponse& response) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  const bool is_head = parser_->is_header_done() && parser_->get().method() == http::verb::head;
  output_ += fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
      response.status, std::string_view(reason.data(), reason.size()), response.type,
      response.body.size());
  if (!is_head) output_ += response.body;
  parser_.reset();
  input_ = {};
  state_ = State::answering;
  write();
}

void HttpConnection::write() {
  while (!output_.empty()) {
    const IoResult result = write_some(fd(), output_);
    if (result.status == IoResult::Status::would_block) return;
    if (result.status != IoResult::Status::progress) {
      state_ = State::over;
      return;
    }
    output_.erase(0, result.count);
  }
  if (state_ != State::answering) return;
  ::shutdown(fd(), SHUT_WR);
  state_ = State::ending;
}

}  // namespace cohort
