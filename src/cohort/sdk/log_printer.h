#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cohort/sdk/service_values.h"

namespace cohort::sdk {

struct LogPrinterOptions {
  int fd = 1;
  bool colour = false;
  bool show_tasks = true;  // each line behind the name of its task
  // Makes a line fit for the reader; empty: as it is. A terminal wants control bytes taken out.
  std::function<std::string(std::string_view line)> clean = {};
};

// Prints pieces of tasks' logs by lines, so that those of several tasks never mix. Of a line that
// was redrawn (a progress bar, carriage returns) the last version is printed. Where a job is tried
// again, a line says so. Confined to one thread.
class LogPrinter {
 public:
  explicit LogPrinter(LogPrinterOptions options) : options_(std::move(options)) {}
  ~LogPrinter() { finish(); }
  LogPrinter(const LogPrinter&) = delete;
  LogPrinter& operator=(const LogPrinter&) = delete;

  // False once the reader is gone.
  bool print(const LogText& piece);
  // Prints what has no line end yet.
  void finish();

 private:
  const std::string& prefix(const std::string& task);
  void add_line(const std::string& task, std::string_view line);
  void flush();

  LogPrinterOptions options_;
  std::map<std::string, std::string> prefixes_;
  std::map<std::string, std::string> partial_;  // by task
  std::string pending_;
  int attempt_ = 0;
  bool broken_ = false;
};

}  // namespace cohort::sdk
