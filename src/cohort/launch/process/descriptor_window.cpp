#include "cohort/launch/process/descriptor_window.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/process/limits.h"

namespace cohort::launch {

DescriptorWindow::DescriptorWindow() : nothing_(::open("/dev/null", O_RDWR | O_CLOEXEC)) {
  if (!nothing_) throw SystemError("cannot open '/dev/null'", errno, {.advice = limits_advice()});
  for (UniqueFd& slot : slots_) {
    slot.reset(::fcntl(nothing_.get(), F_DUPFD_CLOEXEC, 3));
    if (!slot)
      throw SystemError("cannot duplicate a descriptor", errno, {.advice = limits_advice()});
    end_ = std::max(end_, slot.get() + 1);
  }
}

int DescriptorWindow::put(int fd) {
  const int number = slots_.at(used_).get();
  if (::dup3(fd, number, O_CLOEXEC) < 0) throw SystemError("cannot duplicate a descriptor", errno);
  ++used_;
  return number;
}

void DescriptorWindow::clear() {
  for (; used_ > 0; --used_) ::dup3(nothing_.get(), slots_[used_ - 1].get(), O_CLOEXEC);
}

}  // namespace cohort::launch
