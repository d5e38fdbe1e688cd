#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>  // its events have poll()'s values
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/net/socket.h"
#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/server/server.h"
#include "cohort/ps/wire/connection.h"
#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
inline std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// For tests: says to a server, message by message, what the test wants, and shows what it answers.
class ScriptedWorker : public ConnectionOwner {
 public:
  struct Received {
    Message message;
    std::string bulk;
    UniqueFd file;
  };

  ScriptedWorker(const Endpoint& server, std::optional<Secret> secret = {})
      : socket_(connect_to(server, Deadline::after(std::chrono::seconds(5)))) {
    const HandshakeOptions handshake{kProtocol, std::move(secret), "worker"};
    if (server.is_tcp())
      connection_ = std::make_unique<Connection>(make_plain_channel(std::move(socket_)), handshake,
                                                 false, *this);
    else
      connection_ = std::make_unique<Connection>(std::move(socket_), handshake, false, *this);
  }

  int fd() const { return connection_->fd(); }

  void say(Message message, std::string bulk = {}, int file = -1) {
    out_.push_back({encode(message), std::move(bulk), file});
    said_ = false;
    connection_->wake();
    work(Deadline::after(std::chrono::seconds(5)), [&] { return out_.empty() && said_; });
  }

  // The next message; throws when the connection is over before it came.
  Received hear(Deadline deadline = Deadline::after(std::chrono::seconds(5))) {
    if (!work(deadline, [&] { return !in_.empty(); }))
      throw TimeoutError("the server said nothing");
    Received first = std::move(in_.front());
    in_.pop_front();
    return first;
  }
  template <typename T>
  T expect(std::string* bulk = nullptr) {
    Received received = hear();
    if (const auto* refused = std::get_if<Refused>(&received.message))
      if (!std::is_same_v<T, Refused>) throw Error("refused: " + refused->reason);
    if (bulk != nullptr) *bulk = std::move(received.bulk);
    return std::get<T>(received.message);
  }
  // Nothing comes for a moment.
  bool is_quiet(std::chrono::milliseconds moment = std::chrono::milliseconds(100)) {
    return !work(Deadline::after(moment), [&] { return !in_.empty(); });
  }

 private:
  struct Out {
    std::string control;
    std::string bulk;
    int file;
  };

  bool work(Deadline deadline, const std::function<bool()>& done) {
    std::uint32_t happened = 0;
    while (!done()) {
      try {
        connection_->on_events(happened);
      } catch (const Error&) {
        if (!done()) throw;  // the end may come right behind the last words
      }
      if (done()) return true;
      if (deadline.expired()) return false;
      const std::uint32_t events = connection_->wanted_events();
      pollfd wanted{fd(), static_cast<short>(events & (EPOLLIN | EPOLLOUT)), 0};
      ::poll(&wanted, 1, deadline.poll_timeout_ms());
      happened = static_cast<std::uint32_t>(wanted.revents);
    }
    return true;
  }
  void opened(const std::string&) override {}
  std::optional<std::byte*> place(std::string_view, std::size_t bulk_bytes) override {
    bulk_.resize(bulk_bytes);
    return reinterpret_cast<std::byte*>(bulk_.data());
  }
  void received(std::string_view control, std::byte*, std::size_t bulk_bytes,
                UniqueFd file) override {
    in_.push_back({decode_message(control), bulk_bytes > 0 ? std::move(bulk_) : std::string(),
                   std::move(file)});
  }
  bool produce(Outgoing& next) override {
    said_ = out_.empty();
    if (said_) return false;
    sending_ = std::move(out_.front());
    out_.pop_front();
    next = {sending_.control, reinterpret_cast<const std::byte*>(sending_.bulk.data()),
            sending_.bulk.size(), sending_.file};
    return true;
  }

  UniqueFd socket_;
  std::deque<Out> out_;
  Out sending_{};
  bool said_ = false;
  std::deque<Received> in_;
  std::string bulk_;
  std::unique_ptr<Connection> connection_;
};

// A server in a thread of its own.
class ServerThread {
 public:
  explicit ServerThread(ServerOptions options) : server_(std::move(options)) {
    thread_ = std::thread([this] {
      try {
        server_.run();
      } catch (const std::exception& error) {
        failure_ = error.what();
      }
    });
  }
  ~ServerThread() { stop(); }

  Server& server() { return server_; }
  Endpoint tcp() const { return Endpoint::tcp("127.0.0.1", server_.address().port); }
  Endpoint local() const { return Endpoint::unix_abstract(server_.local_name()); }
  std::string stop() {
    if (!thread_.joinable()) return failure_;
    server_.finish();
    thread_.join();
    return failure_;
  }

 private:
  Server server_;
  std::string failure_;
  std::thread thread_;
};

// Gradients of a worker of this host.
class ScriptedRegion {
 public:
  explicit ScriptedRegion(std::size_t bytes, int seals = F_SEAL_SHRINK)
      : file_(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) ADD_FAILURE() << "ftruncate";
    if (seals != 0 && ::fcntl(file_.get(), F_ADD_SEALS, seals) != 0) ADD_FAILURE() << "seal";
    memory_ = static_cast<char*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
  }
  ~ScriptedRegion() { ::munmap(memory_, bytes_); }

  int file() const { return file_.get(); }
  void put(std::size_t offset, const std::vector<float>& values) {
    std::memcpy(memory_ + offset, values.data(), values.size() * sizeof(float));
  }

 private:
  UniqueFd file_;
  std::size_t bytes_;
  char* memory_;
};

}  // namespace cohort::ps
