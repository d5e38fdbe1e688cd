#include "cohort/base/log/line_output.h"

#include <stdio_ext.h>
#include <unistd.h>

#include <cstdio>

namespace cohort {

void write_output_by_lines() noexcept {
  constexpr std::size_t kUnbuffered = 1;  // what the C library says of a stream without a buffer
  if (::isatty(STDOUT_FILENO) == 1 || ::__flbf(stdout) != 0 || ::__fbufsize(stdout) == kUnbuffered)
    return;
  std::fflush(stdout);  // the mode may be changed only while nothing waits
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

}  // namespace cohort
