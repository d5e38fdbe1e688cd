#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cohort/base/unique_fd.h"

namespace cohort::report {

// For tests: a terminal of `columns`, and what a person would see on it.
class Terminal {
 public:
  explicit Terminal(int columns = 80) : columns_(columns) {
    controller_.reset(::posix_openpt(O_RDWR | O_NOCTTY));
    EXPECT_EQ(::grantpt(controller_.get()), 0);
    EXPECT_EQ(::unlockpt(controller_.get()), 0);
    terminal_.reset(::open(::ptsname(controller_.get()), O_RDWR | O_NOCTTY));
    termios settings{};
    ::tcgetattr(terminal_.get(), &settings);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    ::tcsetattr(terminal_.get(), TCSANOW, &settings);
    winsize size{.ws_row = 25, .ws_col = static_cast<unsigned short>(columns)};
    ::ioctl(terminal_.get(), TIOCSWINSZ, &size);
  }
  int fd() const { return terminal_.get(); }

  // The lines on the screen after everything written up to now; the last is the cursor's.
  std::vector<std::string> lines() {
    pollfd entry{.fd = controller_.get(), .events = POLLIN, .revents = 0};
    char buffer[4096];
    while (::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN)) {
      ssize_t count = ::read(controller_.get(), buffer, sizeof buffer);
      if (count <= 0) break;
      written_.append(buffer, static_cast<std::size_t>(count));
    }
    return rendered();
  }

 private:
  std::vector<std::string> rendered() const {
    std::vector<std::string> screen{""};
    std::size_t cursor = 0;
    for (std::size_t i = 0; i < written_.size(); ++i) {
      std::string& line = screen.back();
      if (written_[i] == '\r') {
        cursor = 0;
      } else if (written_[i] == '\n') {
        screen.emplace_back();
        cursor = 0;
      } else if (written_.compare(i, 3, "\x1b[K") == 0) {
        line.resize(std::min(line.size(), cursor));
        i += 2;
      } else {
        EXPECT_LT(cursor, static_cast<std::size_t>(columns_)) << "the line wraps";
        line.resize(std::max(line.size(), cursor + 1));
        line[cursor++] = written_[i];
      }
    }
    return screen;
  }

  int columns_;
  UniqueFd controller_, terminal_;
  std::string written_;
};

}  // namespace cohort::report
