#pragma once

#include <string_view>

namespace cohort {

// Writes all of `text` for the reader of `fd`, and waits for a reader that is slow: a pager, a
// terminal that was halted. A reader that takes nothing must not keep a process from being stopped:
// once SIGINT or SIGTERM is pending (the process blocks them and reads them from a descriptor), or
// with `drop_if_blocked`, it is waited for no longer than a moment. A line of up to PIPE_BUF bytes
// goes out in one write(). False when not all was taken: the reader is gone, or was given up.
bool write_to_reader(int fd, std::string_view text, bool drop_if_blocked);

}  // namespace cohort
