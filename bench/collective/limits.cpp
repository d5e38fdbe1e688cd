#include "bench/collective/limits.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "bench/collective/cases.h"
#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

namespace cohort::bench {

namespace {

using Clock = std::chrono::steady_clock;

__attribute__((target_clones("avx512f", "avx2", "default"), noinline)) void add(float* a, float* b,
                                                                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] = a[i] + b[i];
}

// A barrier of two that spins: both have a core here.
void meet(std::atomic<int>& arrivals, int round) {
  arrivals.fetch_add(1);
  while (arrivals.load() < 2 * round) __builtin_ia32_pause();
}

// Runs `body(side)` in this process (0) and a child (1).
template <typename Body>
void in_two_processes(Body&& body) {
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("fork", errno);
  if (child == 0) {
    bind_to_core(1, 2);
    body(1);
    ::_exit(0);
  }
  body(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw Error("the second process of a limit failed");
}

}  // namespace

double shared_sum_micros(std::size_t bytes) {
  const std::size_t total = 2 * bytes + 4096;
  const UniqueFd file(::memfd_create("limit", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(total)) != 0)
    throw SystemError("make shared memory", errno);
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  if (memory == MAP_FAILED) throw SystemError("map shared memory", errno);
  auto& arrivals = *reinterpret_cast<std::atomic<int>*>(memory);
  auto* a = reinterpret_cast<float*>(memory + 4096);
  auto* b = reinterpret_cast<float*>(memory + 4096 + bytes);
  const std::size_t half = bytes / 8;
  std::vector<double> micros;
  in_two_processes([&](int side) {
    const std::size_t from = side == 0 ? 0 : half;
    const int iterations = iterations_for(bytes);
    for (int i = -2; i < iterations; ++i) {
      meet(arrivals, 2 * (i + 3) - 1);
      const auto start = Clock::now();
      add(a + from, b + from, half);
      meet(arrivals, 2 * (i + 3));
      if (i >= 0)
        micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  });
  ::munmap(memory, total);
  return Spread(std::move(micros)).median;
}

double raw_tcp_micros(std::size_t bytes) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw SystemError("listen on loopback", errno);
  std::vector<double> micros;
  in_two_processes([&](int side) {
    UniqueFd socket;
    if (side == 0) {
      socket.reset(::accept(listener.get(), nullptr, nullptr));
    } else {
      socket.reset(::socket(AF_INET, SOCK_STREAM, 0));
      if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) ::_exit(1);
    }
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::vector<char> out(bytes), in(bytes);
    for (int i = 0; i < 9; ++i) {
      const auto start = Clock::now();
      std::thread sender([&] {
        for (std::size_t sent = 0; sent < bytes;) {
          const ssize_t n = ::send(socket.get(), out.data() + sent, bytes - sent, MSG_NOSIGNAL);
          if (n <= 0) return;
          sent += static_cast<std::size_t>(n);
        }
      });
      for (std::size_t got = 0; got < bytes;) {
        const ssize_t n = ::recv(socket.get(), in.data() + got, bytes - got, 0);
        if (n <= 0) break;
        got += static_cast<std::size_t>(n);
      }
      sender.join();
      if (i >= 2)
        micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  });
  return Spread(std::move(micros)).median;
}

}  // namespace cohort::bench
