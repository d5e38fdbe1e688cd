#pragma once

namespace cohort {

// From here on standard output leaves this process line by line, as on a terminal: what reads it is
// a pipe, which the C library would fill with 4 KiB first, so that a log lags behind and a killed
// process seems to have printed nothing. Holds for printf, fmt and std::cout, which shares the C
// library's buffer unless std::ios::sync_with_stdio(false) was called; such a program flushes for
// itself. A terminal, and a program that has switched buffering off, are left as they are. May be
// called again.
void write_output_by_lines() noexcept;

}  // namespace cohort
