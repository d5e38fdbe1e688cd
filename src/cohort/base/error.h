#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace cohort {

// Where an error happened and what its reader can do next. Every field may be empty.
struct ErrorContext {
  std::string task;    // "worker/1"
  std::string host;    // "node7"
  std::string during;  // the call or step: "all_reduce #17", "step 402"
  std::string advice;  // one imperative sentence: "Give each task its own port."
  // Whose end or silence it reports, where that is known; not part of what().
  std::string peer;    // its task: "worker/1"
  int peer_rank = -1;  // its rank in the group
};

// The root of every exception that Cohort throws. what() is one line made for a person:
//   <message> (<task> on <host>, during <during>). <advice>
// Copyable, immutable, thread-safe to read.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string message, ErrorContext context = {});

  const std::string& message() const { return message_; }
  const ErrorContext& context() const { return context_; }

 private:
  std::string message_;
  ErrorContext context_;
};

// The caller's input is wrong: a flag, a file, an environment variable. Programs exit with 2.
class InvalidInput : public Error {
  using Error::Error;
};

// The operating system refused. `code` is the errno at the time.
class SystemError : public Error {
 public:
  SystemError(const std::string& action, int code, ErrorContext context = {});
  int code() const { return code_; }

 private:
  int code_;
};

// A deadline passed.
class TimeoutError : public Error {
  using Error::Error;
};

// A peer went away or broke off.
class PeerError : public Error {
  using Error::Error;
};

// A peer could not prove that it belongs to this job.
class AuthError : public Error {
  using Error::Error;
};

// A peer sent bytes that the protocol does not allow.
class ProtocolError : public Error {
  using Error::Error;
};

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);
}

}  // namespace cohort

// A broken invariant: a bug in Cohort, never bad input. Always compiled in. Takes a format string
// and its arguments.
#define COHORT_CHECK(condition, ...)                                                              \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::cohort::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
