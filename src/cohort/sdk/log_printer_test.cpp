#include "cohort/sdk/log_printer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cohort/base/unique_fd.h"

namespace cohort::sdk {
namespace {

// What a printer writes into a pipe.
class Printed {
 public:
  Printed() {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  int fd() const { return write_.get(); }
  std::string text() {
    write_.reset();
    std::string all(4096, '\0');
    all.resize(static_cast<std::size_t>(::read(read_.get(), all.data(), all.size())));
    return all;
  }

 private:
  UniqueFd read_, write_;
};

TEST(LogPrinter, LinesOfSeveralTasksNeverMix) {
  Printed printed;
  LogPrinter printer({.fd = printed.fd()});
  printer.print({.task = "worker:0", .attempt = 1, .text = "one\ntw"});
  printer.print({.task = "worker:1", .attempt = 1, .text = "other\n"});
  printer.print({.task = "worker:0", .attempt = 1, .text = "o\n"});
  printer.print({.task = "worker:0", .attempt = 1, .text = "10%\r50%\r100%\r\nend"});
  printer.finish();
  EXPECT_EQ(printed.text(),
            "worker:0 one\nworker:1 other\nworker:0 two\nworker:0 100%\nworker:0 end\n");
}

TEST(LogPrinter, ANewAttemptIsToldAndLinesAreCleaned) {
  Printed printed;
  LogPrinter printer({.fd = printed.fd(), .show_tasks = false, .clean = [](std::string_view line) {
                        return "<" + std::string(line) + ">";
                      }});
  printer.print({.task = "worker:0", .attempt = 1, .text = "a\n"});
  printer.print({.task = "worker:0", .attempt = 2, .text = "b\n"});
  EXPECT_EQ(printed.text(), "<a>\n-- attempt 2 --\n<b>\n");
}

}  // namespace
}  // namespace cohort::sdk
