#pragma once

#include <functional>
#include <optional>
#include <string_view>

// A program whose output another process hands on, line by line.
namespace cohort::engine {

struct RelayOptions {
  bool errors = true;      // standard error goes the same way; else it is left as it is
  bool own_group = false;  // the program leads a process group of its own
};

struct RelayEnd {
  int status = 0;            // the program's, as waitpid() has it
  bool told_to_end = false;  // TERM or INT came before
};

// Forks. In the child it returns nothing: standard output now leads to the parent, and the child is
// killed when the parent ends. The parent hands what comes to `sink`, whole lines, half a line
// after 100 ms without more; passes signals on; and returns when the child has ended. When no
// process reads the parent's own standard output any more, child and parent are killed, with the
// parent's process group where it leads one. Call it in a process of one thread. Throws SystemError.
std::optional<RelayEnd> relay_lines(const RelayOptions& options,
                                    const std::function<void(std::string_view)>& sink);

// Writes all of it to standard output; gives up when no process reads that any more.
void write_to_output(std::string_view text);

// Ends this process as one of that status ended.
[[noreturn]] void end_like(int status);

}  // namespace cohort::engine
