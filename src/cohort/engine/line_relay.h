#pragma once

#include <string_view>

// Whole lines for mpirun, which puts a rank's tag before every piece that it reads: a program that
// writes a line in pieces, as an unbuffered Python does, would have one before each.
namespace cohort::engine {

// Forks. In the child it returns: standard output and standard error now lead to the parent. The
// parent hands them on line by line (half a line after 100 ms without more), passes signals on, says
// last how the child failed, unless it was told to end ("rank 1 ended with exit code 3": mpirun does
// not always tell), and ends as it did. Call it in a process of one thread. Throws SystemError.
void relay_whole_lines(std::string_view rank);

}  // namespace cohort::engine
