#include "cohort/base/net/http_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>

#include "cohort/base/net/http_beast.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/net/tls_certificates.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

namespace http = beast::http;

constexpr std::size_t kAtOnce = 64 * 1024;
constexpr std::size_t kMostHead = 64 * 1024;
constexpr std::size_t kMostRefusal = std::size_t{1} << 20;  // the body of one
constexpr std::chrono::seconds kConnectTime{10};
constexpr int kHttpPort = 80, kHttpsPort = 443, kMostPort = 65535;

// A request on its way: its head, then a text or a file.
class OutgoingCall {
 public:
  OutgoingCall(const HttpClientOptions& options, const HttpCall& call) {
    std::uint64_t size = call.body.size();
    if (!call.file.empty()) {
      file_.reset(::open(call.file.c_str(), O_RDONLY | O_CLOEXEC));
      struct stat status;
      if (!file_ || ::fstat(file_.get(), &status) != 0)
        throw SystemError(fmt::format("cannot send {}", call.file.string()), errno);
      size = left_ = static_cast<std::uint64_t>(status.st_size);
      name_ = call.file.string();
    }
    if (std::ranges::any_of(call.method + call.target,
                            [](unsigned char c) { return c <= ' ' || c == 127; }))
      throw InvalidInput(fmt::format("'{}' is no target of an HTTP request: it is not encoded",
                                     escape_controls(call.target)));
    const Endpoint& server = options.server;
    text_ = fmt::format("{} {} HTTP/1.1\r\n", call.method, call.target);
    text_ += header_line("Host", server.is_tcp() ? server.to_string() : "localhost");
    text_ += header_line("Connection", "close");
    for (const auto& [name, value] : options.headers) text_ += header_line(name, value);
    for (const auto& [name, value] : call.headers) text_ += header_line(name, value);
    if (size > 0 || (call.method != "GET" && call.method != "HEAD"))
      text_ += header_line("Content-Length", std::to_string(size));
    text_ += "\r\n";
    if (!file_) text_ += call.body;
  }

  // What is to be sent next; empty at the end.
  std::string_view text() {
    if (sent_ == text_.size() && left_ > 0) {
      text_.resize(std::min<std::uint64_t>(left_, kAtOnce));
      const ssize_t count = ::read(file_.get(), text_.data(), text_.size());
      if (count <= 0)
        throw SystemError(fmt::format("cannot read {}", name_), count < 0 ? errno : ENODATA);
      text_.resize(static_cast<std::size_t>(count));
      left_ -= text_.size();
      sent_ = 0;
    }
    return std::string_view(text_).substr(sent_);
  }
  void take(std::size_t count) { sent_ += count; }

 private:
  std::string text_, name_;
  std::size_t sent_ = 0;  // of text_
  UniqueFd file_;
  std::uint64_t left_ = 0;  // of the file
};

}  // namespace

HttpCancel::HttpCancel() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw SystemError("cannot create an event descriptor", errno);
}

void HttpCancel::cancel() noexcept {
  const int before = errno;
  is_cancelled_.store(true);
  ::eventfd_write(event_.get(), 1);
  errno = before;
}

HttpClientOptions HttpClientOptions::at(std::string_view url) {
  const auto bad = [url](const char* why) {
    return InvalidInput(
        fmt::format("'{}' is no address of a server: {}", escape_controls(url), why),
        {.advice = "Give http://HOST:PORT, https://HOST:PORT or unix:PATH."});
  };
  if (url.starts_with("unix:")) return {.server = Endpoint::unix_path(std::string(url.substr(5)))};
  const bool is_tls = url.starts_with("https://");
  if (!is_tls && !url.starts_with("http://")) throw bad("it has no known scheme");
  std::string_view place = url.substr(is_tls ? 8 : 7);
  if (place.ends_with('/')) place.remove_suffix(1);
  if (place.find_first_of("/?#@") != place.npos) throw bad("it has more than host and port");
  std::string_view host = place, port;
  if (place.starts_with('[')) {
    const std::size_t end = place.find(']');
    if (end == place.npos) throw bad("']' is missing");
    host = place.substr(1, end - 1);
    port = place.substr(end + 1);
  } else if (const std::size_t colon = place.find(':'); colon != place.npos) {
    host = place.substr(0, colon);
    port = place.substr(colon);
  }
  if (host.empty()) throw bad("it has no host");
  std::uint64_t number = is_tls ? kHttpsPort : kHttpPort;
  if (!port.empty()) {
    const auto given = parse_unsigned(port.substr(1));
    if (port.front() != ':' || !given || *given < 1 || *given > kMostPort)
      throw bad("the port is no number between 1 and 65535");
    number = *given;
  }
  return {.server = Endpoint::tcp(std::string(host), static_cast<int>(number)), .tls = is_tls};
}

class HttpReplyReader::State {
 public:
  State(std::unique_ptr<Channel> channel, std::string peer, const HttpCancel* cancel, bool is_head)
      : channel_(std::move(channel)), peer_(std::move(peer)), cancel_(cancel), is_head_(is_head) {
    new_parser();
  }

  void greet(Deadline deadline) {
    while (true) {
      const IoResult result = channel_->greet();
      if (result.status == IoResult::Status::progress) return;
      if (result.status != IoResult::Status::would_block) throw lost();
      wait(channel_->waits_to_write() ? POLLOUT : POLLIN, deadline);
    }
  }

  // Sends the request and reads the reply's head. A server may refuse a body that it has not read.
  void exchange(OutgoingCall call, Deadline deadline) {
    bool is_sending = true;
    while (!parser_->is_header_done()) {
      const std::string_view text = is_sending ? call.text() : std::string_view();
      const iovec place{const_cast<char*>(text.data()), text.size()};
      IoResult written{IoResult::Status::would_block};
      if (!text.empty()) written = channel_->write(&place, 1);
      if (written.status == IoResult::Status::progress) call.take(written.count);
      // A server that closed may have said why before.
      if (written.status == IoResult::Status::failed) is_sending = false;
      const bool is_stuck = written.status == IoResult::Status::would_block;
      if (!read_more() && is_stuck)
        wait(text.empty() ? POLLIN : static_cast<short>(POLLIN | POLLOUT), deadline);
    }
    status_ = static_cast<int>(parser_->get().result_int());
    headers_ = beast::headers_of(parser_->get());
  }

  int status() const { return status_; }
  const HttpHeaders& headers() const { return headers_; }

  std::string read(Deadline deadline) {
    std::string& body = parser_->get().body();
    while (body.empty() && !parser_->is_done())
      if (!read_more()) wait(POLLIN, deadline);
    return std::exchange(body, {});
  }

 private:
  using Parser = http::response_parser<beast::PieceBody>;

  void new_parser() {
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(kMostHead);
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // the caller bounds it
    parser_->skip(is_head_);
  }

  PeerError lost() const {
    return PeerError(fmt::format("{} closed the connection before its reply was whole", peer_));
  }

  void wait(short events, Deadline deadline) const {
    std::array<pollfd, 2> places{pollfd{channel_->fd(), events, 0},
                                 pollfd{cancel_ != nullptr ? cancel_->fd() : -1, POLLIN, 0}};
    const int count = ::poll(places.data(), places.size(), deadline.poll_timeout_ms());
    if (count < 0 && errno != EINTR) throw SystemError("cannot wait for a socket", errno);
    if (count <= 0 && deadline.expired())
      throw TimeoutError(fmt::format("{} sent nothing in time", peer_));
  }

  // Reads once; false when there is nothing yet.
  bool read_more() {
    if (cancel_ != nullptr && cancel_->is_cancelled())
      throw HttpCancelled(fmt::format("the call of {} was cancelled", peer_));
    std::array<char, kAtOnce> buffer;
    const iovec place{buffer.data(), buffer.size()};
    const IoResult result = channel_->read(&place, 1);
    if (result.status == IoResult::Status::would_block) return false;
    boost::beast::error_code error;
    if (result.status != IoResult::Status::progress) {
      if (!parser_->got_some() || result.status == IoResult::Status::failed) throw lost();
      parser_->put_eof(error);
      if (error) throw lost();
      return true;
    }
    input_.append(buffer.data(), result.count);
    error = beast::feed(*parser_, input_);
    while (!error && parser_->is_done() && parser_->get().result_int() < 200) {
      new_parser();  // it only says that more is to come
      error = beast::feed(*parser_, input_);
    }
    if (error)
      throw ProtocolError(fmt::format("{} sent no HTTP reply: {}", peer_, error.message()));
    return true;
  }

  std::unique_ptr<Channel> channel_;
  std::string peer_;
  const HttpCancel* cancel_;
  bool is_head_;
  std::optional<Parser> parser_;
  std::string input_;
  int status_ = 0;
  HttpHeaders headers_;
};

HttpReplyReader::HttpReplyReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpReplyReader::~HttpReplyReader() = default;
HttpReplyReader::HttpReplyReader(HttpReplyReader&&) noexcept = default;
int HttpReplyReader::status() const { return state_->status(); }
const HttpHeaders& HttpReplyReader::headers() const { return state_->headers(); }
std::string HttpReplyReader::read(Deadline deadline) { return state_->read(deadline); }

HttpClient::HttpClient(HttpClientOptions options)
    : options_(std::move(options)),
      tls_(options_.tls ? std::make_unique<TlsClientContext>(options_.ca_file, options_.certificate,
                                                             options_.key)
                        : nullptr) {}
HttpClient::~HttpClient() = default;

HttpReplyReader HttpClient::open(const HttpCall& call, Deadline deadline) const {
  OutgoingCall outgoing(options_, call);
  const Deadline connected =
      Deadline::at(std::min(deadline.when(), Deadline::Clock::now() + kConnectTime));
  UniqueFd socket = connect_to(options_.server, connected);
  auto state = std::make_unique<HttpReplyReader::State>(
      tls_ ? tls_->make_channel(std::move(socket), options_.server.host())
           : make_plain_channel(std::move(socket)),
      options_.server.to_string(), options_.cancel, call.method == "HEAD");
  state->greet(deadline);
  state->exchange(std::move(outgoing), deadline);
  return HttpReplyReader(std::move(state));
}

HttpReply HttpClient::call(const HttpCall& call, Deadline deadline, std::size_t most) const {
  HttpReplyReader reader = open(call, deadline);
  HttpReply reply{.status = reader.status(), .headers = reader.headers()};
  for (std::string piece; !(piece = reader.read(deadline)).empty();) {
    reply.body += piece;
    if (reply.body.size() > most)
      throw ProtocolError(
          fmt::format("{} sent a reply of more than {} bytes", options_.server.to_string(), most));
  }
  return reply;
}

HttpReply HttpClient::download(const HttpCall& call, const Sink& sink, Deadline deadline) const {
  HttpReplyReader reader = open(call, deadline);
  HttpReply reply{.status = reader.status(), .headers = reader.headers()};
  const bool is_good = reply.status >= 200 && reply.status < 300;
  for (std::string piece; !(piece = reader.read(deadline)).empty();) {
    if (is_good)
      sink(piece);
    else if (reply.body.size() < kMostRefusal)
      reply.body += piece;
  }
  return reply;
}

}  // namespace cohort
