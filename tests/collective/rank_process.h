// Ranks as processes of their own, for tests that hurt them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::collective {

// A rank's process; its standard output can be read line by line.
class Rank {
 public:
  // `files`: its limit of open files, hard and soft; 0: as this process's.
  Rank(int rank, int size, const cluster::Address& store, const std::string& id,
       const std::string& mode, rlim_t files = 0) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    output_.reset(ends[0]);
    const UniqueFd input(ends[1]);
    const std::string program = std::string(COLLECTIVE_RANK);
    std::vector<std::string> words{program,    std::to_string(rank),       std::to_string(size),
                                   store.host, std::to_string(store.port), id,
                                   mode};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      const rlimit limit{.rlim_cur = files, .rlim_max = files};
      if (files > 0 && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(126);
      ::dup2(input.get(), STDOUT_FILENO);
      ::execv(program.c_str(), arguments.data());
      ::_exit(127);
    }
  }
  Rank(const Rank&) = delete;
  ~Rank() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { ::kill(pid_, number); }

  // The next line, or "" at the end of the output or after `limit`.
  std::string line(std::chrono::milliseconds limit) {
    const Deadline deadline = Deadline::after(limit);
    while (true) {
      if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
        std::string result = text_.substr(0, end);
        text_.erase(0, end + 1);
        return result;
      }
      pollfd entry{output_.get(), POLLIN, 0};
      if (::poll(&entry, 1, deadline.poll_timeout_ms()) <= 0) return "";
      char buffer[4096];
      const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
      if (got <= 0) return "";
      text_.append(buffer, static_cast<std::size_t>(got));
    }
  }

  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
  bool reaped_ = false;
};

inline std::vector<std::unique_ptr<Rank>> start(int size, const cluster::StoreServer& store,
                                                const std::string& id, const std::string& mode,
                                                rlim_t files = 0) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Rank>(rank, size, store.address(), id, mode, files));
  for (auto& rank : ranks) EXPECT_EQ(rank->line(std::chrono::seconds(30)), "ready");
  return ranks;
}

}  // namespace cohort::collective
