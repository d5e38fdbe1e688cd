#pragma once

#include <poll.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cohort/base/net/socket.h"
#include "cohort/base/text.h"
#include "cohort/transport/rendezvous.h"

namespace cohort::transport::tcp {

// A rendezvous that puts a proxy in front of every address that is published through it: what a
// hostile or broken network between the ranks would do. Bytes from the side that connects are
// counted over all connections.
class ProxyRendezvous : public MemoryRendezvous {
 public:
  // Set before data flows, changed at any time.
  std::atomic<std::size_t> damage_at{~std::size_t{0}};  // flips a bit of this byte
  std::atomic<std::size_t> close_at{~std::size_t{0}};   // closes both sides there
  std::atomic<bool> hold = false;                       // forwards nothing, closes nothing
  // Takes bytes, and throws them away: of the side that connects, and for it.
  std::atomic<bool> swallow_up = false, swallow_down = false;
  std::atomic<int> drop = 0;  // closes so many connections as they come

  ~ProxyRendezvous() override {
    stopping_ = true;
    for (auto& thread : threads_) thread.join();
  }

  void set(const std::string& key, const std::string& value, Deadline deadline) override {
    auto words = split(value, ' ');
    if (words.size() < 4 || words[0] == "end") return MemoryRendezvous::set(key, value, deadline);
    const int real_port = std::stoi(words[0]);
    UniqueFd listener = listen_on(Endpoint::tcp("127.0.0.1", 0));
    words[0] = std::to_string(local_endpoint(listener.get()).port());
    {
      std::lock_guard lock(mutex_);
      real_ports_.push_back(real_port);
      threads_.emplace_back(
          [this, real_port, fd = listener.release()] { serve(UniqueFd(fd), real_port); });
    }
    MemoryRendezvous::set(key, join(words, " "), deadline);
  }

  // What the connecting sides have sent so far.
  std::string recorded() {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  int real_port(int index) {
    std::lock_guard lock(mutex_);
    return real_ports_[static_cast<std::size_t>(index)];
  }

 private:
  struct Pair {
    UniqueFd client, server;
  };

  void serve(UniqueFd listener, int real_port) {
    std::vector<Pair> pairs;
    while (!stopping_) {
      std::vector<pollfd> fds{{listener.get(), POLLIN, 0}};
      for (const Pair& pair : pairs) {
        fds.push_back({hold ? -1 : pair.client.get(), POLLIN, 0});
        fds.push_back({hold ? -1 : pair.server.get(), POLLIN, 0});
      }
      ::poll(fds.data(), fds.size(), 5);
      for (std::size_t i = 0; i < pairs.size() && !hold; ++i) {
        const bool open = forward(pairs[i].client.get(), pairs[i].server.get(), true) &&
                          forward(pairs[i].server.get(), pairs[i].client.get(), false);
        if (!open) pairs[i] = {};
      }
      std::erase_if(pairs, [](const Pair& pair) { return !pair.client; });
      if (UniqueFd client = accept_ready(listener.get())) {
        if (drop > 0) {
          --drop;
          continue;
        }
        try {
          UniqueFd server = connect_to(Endpoint::tcp("127.0.0.1", real_port),
                                       Deadline::after(std::chrono::seconds(5)));
          pairs.push_back({std::move(client), std::move(server)});
        } catch (const Error&) {
          // The client reads that its peer is not there.
        }
      }
    }
  }

  bool forward(int from, int to, bool upward) {
    char buffer[16384];
    const IoResult got = read_some(from, buffer, sizeof buffer);
    if (got.status == IoResult::Status::would_block) return true;
    if (got.status != IoResult::Status::progress) return false;
    if (upward ? swallow_up : swallow_down) return true;
    std::size_t count = got.count;
    bool open = true;
    if (upward) {
      std::lock_guard lock(mutex_);
      const std::size_t begin = recorded_.size();
      if (damage_at >= begin && damage_at < begin + count) buffer[damage_at - begin] ^= 4;
      if (close_at < begin + count) {
        count = close_at > begin ? close_at - begin : 0;
        open = false;
      }
      recorded_.append(buffer, got.count);
    }
    try {
      send_all(to, {buffer, count}, Deadline::after(std::chrono::seconds(10)), "the other side");
    } catch (const Error&) {
      return false;
    }
    return open;
  }

  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::vector<int> real_ports_;
  std::string recorded_;
  std::vector<std::thread> threads_;
};

}  // namespace cohort::transport::tcp
