#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/report/live_line.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/job_table.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr int kMostRows = 1000;  // where there is no terminal
constexpr int kHeadLines = 4;    // of a screen: machine, blank, head of the table, last line

constexpr const char* kTopExamples = R"(
Examples:
  cohort top
      jobs that run, then those that wait, and what they use; q quits
  cohort top --interval 5
      drawn every five seconds
  cohort top | cat
      once, as plain text

The exit code is 0.
)";

// The keys of a terminal one by one, as long as it lives; nothing where there is none.
class Keyboard {
 public:
  Keyboard() : is_terminal_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_terminal_) return;
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  ~Keyboard() {
    if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Keyboard(const Keyboard&) = delete;
  Keyboard& operator=(const Keyboard&) = delete;

  // Waits; false when q was pressed.
  bool wait(std::chrono::milliseconds time) const {
    pollfd input{.fd = is_terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, static_cast<int>(time.count())) <= 0) return true;
    char key = 0;
    return ::read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
  }

 private:
  termios before_{};
  bool is_terminal_;
};

int terminal_rows() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

std::string screen_text(sdk::ServiceClient& client, int rows, int columns) {
  const sdk::ServiceInfo service = client.service();
  auto jobs =
      client.jobs({.states = {"running", "starting", "stopping", "queued"}, .limit = kMostRows})
          .jobs;
  std::stable_sort(jobs.begin(), jobs.end(), [](const sdk::Job& a, const sdk::Job& b) {
    return (a.state != "queued") > (b.state != "queued");
  });
  const auto most = static_cast<std::size_t>(std::max(rows - kHeadLines, 1));
  const std::size_t left_out = jobs.size() > most ? jobs.size() - most : 0;
  jobs.resize(jobs.size() - left_out);
  std::string text = fmt::format("cohort {} for {}, {}\n\n", escape_controls(service.version),
                                 escape_controls(service.user), use_text(service));
  text += jobs.empty() ? "no job runs or waits\n"
                       : job_table(jobs, std::chrono::system_clock::now(), columns);
  if (left_out > 0) text += fmt::format("and {} more\n", left_out);
  return text;
}

// Over what was there before, without a flicker: every line is cut and erased to its end.
void draw(const std::string& text, int columns) {
  std::string screen = "\033[H";
  for (const auto& line : split(text, '\n'))
    screen += report::clip_columns(line, columns) + "\033[K\n";
  fmt::print("{}\033[J", screen);
  std::fflush(stdout);
}

int show_top(double interval) {
  if (!(interval >= 0.1 && interval <= 3600))
    throw InvalidInput(
        fmt::format("--interval must be from 0.1 to 3600 seconds, got {}", interval));
  Interruption interruption;
  auto client = service_with_jobs(interruption.cancel());
  if (!client) {
    fmt::print("no jobs\n");
    return 0;
  }
  if (!report::is_live_terminal(STDOUT_FILENO)) {
    fmt::print("{}", screen_text(*client, kMostRows, 0));
    return 0;
  }
  const Keyboard keyboard;
  const auto pause = std::chrono::milliseconds(static_cast<std::int64_t>(interval * 1000));
  try {
    do {
      const int columns = report::terminal_columns(STDOUT_FILENO);
      draw(screen_text(*client, terminal_rows(), columns), columns);
    } while (keyboard.wait(pause) && !interruption.cancel()->is_cancelled());
  } catch (const HttpCancelled&) {  // Ctrl-C in the middle of a request
  }
  return 0;
}

}  // namespace

Command top_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto interval = std::make_shared<double>(1);
    app.description("Shows what runs and waits, and what it uses, again and again.");
    app.footer(kTopExamples);
    app.add_option("--interval", *interval, "Seconds between two looks [1]")->type_name("S");
    return [interval](const Words&, const Words&) { return show_top(*interval); };
  };
  return {"top", "watch submitted jobs and the machine", "[options]", declare};
}

}  // namespace cohort::tools
