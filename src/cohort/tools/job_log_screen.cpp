#include "cohort/tools/job_log_screen.h"

#include <unistd.h>

#include "cohort/base/error.h"
#include "cohort/launch/output/screen.h"
#include "cohort/report/live_line.h"

namespace cohort::tools {
namespace {

sdk::LogPrinterOptions printer_options(bool show_tasks) {
  sdk::LogPrinterOptions options{.fd = STDOUT_FILENO, .show_tasks = show_tasks};
  if (::isatty(STDOUT_FILENO) == 1) {
    options.colour = report::is_live_terminal(STDOUT_FILENO) && !::getenv("NO_COLOR");
    options.clean = launch::printable;
  }
  return options;
}

}  // namespace

JobLogScreen::JobLogScreen(bool show_tasks) : printer_(printer_options(show_tasks)) {}

void JobLogScreen::take(const sdk::LogText& piece) {
  cursor_ = piece.cursor;
  if (!printer_.print(piece)) throw Error("the reader of standard output is gone");
}

sdk::JobEnd JobLogScreen::follow(sdk::ServiceClient& client, const std::string& job,
                                 const sdk::LogQuery& query) {
  const sdk::JobEnd end =
      client.follow_logs(job, query, [this](const sdk::LogText& piece) { take(piece); });
  printer_.finish();
  return end;
}

void JobLogScreen::read(sdk::ServiceClient& client, const std::string& job,
                        const sdk::LogQuery& query, int attempt) {
  client.read_logs(job, query, attempt, [this](const sdk::LogText& piece) { take(piece); });
  printer_.finish();
}

}  // namespace cohort::tools
