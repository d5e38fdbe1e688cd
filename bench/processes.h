#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <span>

#include "cohort/base/error.h"
#include "cohort/base/unique_fd.h"

// Benchmarks that are several processes: forked from one that has no threads.
namespace cohort::bench {

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) throw SystemError("cannot make a pipe", errno);
    in.reset(fds[0]);
    out.reset(fds[1]);
  }
  // True when a value came, false when every writer has gone.
  template <typename T>
  bool read(T& value) {
    return ::read(in.get(), &value, sizeof value) == static_cast<ssize_t>(sizeof value);
  }
  template <typename T>
  void write(const T& value) {
    if (::write(out.get(), &value, sizeof value) != static_cast<ssize_t>(sizeof value))
      throw SystemError("cannot write to a pipe", errno);
  }
  UniqueFd in, out;
};

// Values that begin as zero and that all processes forked from here on see. Not for types that own
// something.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t count) : count_(count) {
    void* memory = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw SystemError("cannot map memory", errno);
    values_ = static_cast<T*>(memory);
  }
  ~Shared() { ::munmap(values_, count_ * sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T& operator[](std::size_t i) { return values_[i]; }
  std::span<T> all() { return {values_, count_}; }

 private:
  std::size_t count_;
  T* values_;
};

// Runs `body` in a process of its own, which does not outlive this one. What it throws is printed
// and makes its exit code 1.
inline pid_t fork_process(const char* program, const std::function<void()>& body) {
  std::fflush(stdout);
  pid_t pid = ::fork();
  if (pid < 0) throw SystemError("cannot fork", errno);
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 0;
  try {
    body();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    code = 1;
  }
  ::_exit(code);
}

inline void expect_success(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || status != 0)
    throw Error(fmt::format("a process of the benchmark failed (status {})", status));
}

}  // namespace cohort::bench
