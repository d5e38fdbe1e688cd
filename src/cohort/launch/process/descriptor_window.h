#pragma once

#include <array>

#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// A few low descriptor numbers, kept free for what a new process is to have. A process is given the
// launcher's table of descriptors up to end() only: the kernel neither copies nor closes the
// thousands that a large job has behind it, and so starting tasks takes time in proportion to their
// number.
//
// Make it before many descriptors are open. Confined to one thread. The constructor throws
// SystemError.
class DescriptorWindow {
 public:
  DescriptorWindow();
  DescriptorWindow(const DescriptorWindow&) = delete;
  DescriptorWindow& operator=(const DescriptorWindow&) = delete;

  // A duplicate of `fd` at one of the numbers, until clear(). Throws SystemError.
  int put(int fd);
  void clear();
  int end() const { return end_; }  // one more than the highest number

 private:
  UniqueFd nothing_;               // /dev/null
  std::array<UniqueFd, 8> slots_;  // the first used_ hold duplicates, the others nothing_
  std::size_t used_ = 0;
  int end_ = 0;
};

}  // namespace cohort::launch
