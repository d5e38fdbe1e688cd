#include "bench/ps/limits.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bench/ps/gate.h"
#include "bench/ps/job.h"
#include "bench/targets.h"
#include "cohort/base/net/socket.h"

namespace cohort::bench {

namespace {

constexpr int kLimitWarmup = 2;
constexpr int kSteps = 7;

// What `prepare(i)` returns is process i's step. Seconds from the moment all begin it to the moment
// the last is through.
template <typename Prepare>
double time_steps(int processes, Prepare&& prepare) {
  Gate gate(processes);
  Shared<double> seconds(kSteps);
  std::vector<pid_t> pids;
  for (int i = 0; i < processes; ++i)
    pids.push_back(fork_process(kProgram, [&, i] {
      auto step = prepare(i);
      for (int k = -kLimitWarmup; k < kSteps; ++k) {
        gate.meet(soon());
        const auto begin = std::chrono::steady_clock::now();
        step();
        gate.meet(soon());
        if (i == 0 && k >= 0)
          seconds[static_cast<std::size_t>(k)] =
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
    }));
  for (const pid_t pid : pids) expect_success(pid);
  return Spread({seconds.all().begin(), seconds.all().end()}).median;
}

void send_all(int socket, const std::vector<char>& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) throw SystemError("cannot send", errno);
    sent += static_cast<std::size_t>(n);
  }
}

void receive_all(int socket, std::vector<char>& bytes) {
  for (std::size_t got = 0; got < bytes.size();) {
    const ssize_t n = ::recv(socket, bytes.data() + got, bytes.size() - got, 0);
    if (n <= 0) throw SystemError("cannot receive", errno);
    got += static_cast<std::size_t>(n);
  }
}

struct Line {
  UniqueFd socket;
  std::vector<char> out, in;
};

void exchange(std::vector<Line>& lines) {
  std::vector<std::thread> threads;
  for (Line& line : lines) {
    threads.emplace_back([&] { send_all(line.socket.get(), line.out); });
    threads.emplace_back([&] { receive_all(line.socket.get(), line.in); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Line& line : lines)
    if (line.in.front() != 'x' || line.in.back() != 'x') throw Error("other bytes came than sent");
}

__attribute__((target_clones("avx512f", "avx2", "default"), noinline)) void add_update(
    const float* gradient, const float* more, const float* values, const float* momentum,
    float* new_values, float* new_momentum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float sum = more == nullptr ? gradient[i] : gradient[i] + more[i];
    const float buffer = momentum[i] + sum;
    new_momentum[i] = buffer;
    new_values[i] = values[i] - 0.25f * buffer;
  }
}

// A model in memory that processes share: what each worker pushed, all of it 1, and two sides of
// values and of momentum, of which a step reads one and writes the other.
class PlainModel {
 public:
  PlainModel(std::size_t elements, int workers)
      : n_(elements),
        workers_(workers),
        pushed_(elements * static_cast<std::size_t>(workers)),
        state_(elements * 4) {}

  // A server's step, which checks itself.
  std::function<void()> server(int server, int servers) {
    const std::size_t from =
        n_ * static_cast<std::size_t>(server) / static_cast<std::size_t>(servers);
    const std::size_t to =
        n_ * static_cast<std::size_t>(server + 1) / static_cast<std::size_t>(servers);
    return [this, from, to, k = std::size_t{0}]() mutable {
      const std::size_t old_side = k % 2 * n_, new_side = (k + 1) % 2 * n_;
      ++k;
      add_update(&pushed_[from], workers_ == 2 ? &pushed_[n_ + from] : nullptr,
                 &state_[old_side + from], &state_[2 * n_ + old_side + from],
                 &state_[new_side + from], &state_[2 * n_ + new_side + from], to - from);
      const float wanted =
          -0.25f * static_cast<float>(workers_) * static_cast<float>(k * (k + 1) / 2);
      for (const std::size_t i : {from, to - 1})
        if (state_[new_side + i] != wanted) throw Error("the plain update is wrong");
    };
  }

  std::function<void()> worker(int worker) {
    auto own = std::make_shared<std::vector<float>>(n_, 1.0f);
    auto values = std::make_shared<std::vector<float>>(n_);
    float* region = &pushed_[n_ * static_cast<std::size_t>(worker)];
    std::copy(own->begin(), own->end(), region);
    return [this, own, values, region, k = std::size_t{0}]() mutable {
      std::memcpy(region, own->data(), n_ * sizeof(float));
      std::memcpy(values->data(), &state_[k++ % 2 * n_], n_ * sizeof(float));
    };
  }

 private:
  std::size_t n_;
  int workers_;
  Shared<float> pushed_, state_;
};

}  // namespace

double raw_tcp_seconds(std::uint64_t bytes, int workers, int servers) {
  std::vector<UniqueFd> listeners;
  for (int s = 0; s < servers; ++s) listeners.push_back(listen_on(Endpoint::tcp("127.0.0.1", 0)));
  return time_steps(servers + workers, [&](int i) {
    std::vector<Line> lines;
    const int peers = i < servers ? workers : servers;
    for (int p = 0; p < peers; ++p) {
      Line line;
      const int listener = listeners[static_cast<std::size_t>(i < servers ? i : p)].get();
      line.socket = i < servers ? accept_from(listener, soon())
                                : connect_to(local_endpoint(listener), soon());
      const int flags = ::fcntl(line.socket.get(), F_GETFL);
      ::fcntl(line.socket.get(), F_SETFL, flags & ~O_NONBLOCK);
      line.out.assign(bytes / static_cast<std::uint64_t>(servers), 'x');
      line.in.resize(line.out.size());
      lines.push_back(std::move(line));
    }
    return std::function<void()>(
        [lines = std::make_shared<std::vector<Line>>(std::move(lines))] { exchange(*lines); });
  });
}

double raw_memory_seconds(std::uint64_t bytes, int workers, int servers) {
  PlainModel model(bytes / sizeof(float), workers);
  return time_steps(servers + workers, [&](int i) {
    return i < servers ? model.server(i, servers) : model.worker(i - servers);
  });
}

double plain_update_seconds(std::uint64_t bytes) {
  PlainModel model(bytes / sizeof(float), 1);
  model.worker(0);
  const auto update = model.server(0, 1);
  CacheSweep sweep;
  std::vector<double> seconds;
  for (int k = -kLimitWarmup; k < kSteps; ++k) {
    sweep();
    const double before = cpu_seconds(::getpid());
    update();
    if (k >= 0) seconds.push_back(cpu_seconds(::getpid()) - before);
  }
  return Spread(std::move(seconds)).median;
}

}  // namespace cohort::bench
