// A worker of an elastic job that trains nothing: its stages are pauses. See elastic_test.py.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/process/run_main.h"
#include "cohort/cluster/session/session.h"
#include "cohort/membership/service/agent.h"

namespace {

using namespace cohort;
using std::chrono::milliseconds;

struct Arguments {
  std::int64_t stages = 100;
  int stage_ms = 10;
  std::string until;          // goes on until this file is there
  int fail_worker = -1;       // this one ...
  int fail_code = 0;          // ... exits so ...
  int fail_signal = 0;        // ... or dies so ...
  std::string fail = "join";  // ... here: start, join
  int odd_worker = -1;        // started otherwise than the rest
  int after_ms = 0;           // stays so long when training is over
};

template <typename... Words>
void say(fmt::format_string<Words...> format, Words&&... words) {
  fmt::print("{}\n", fmt::format(format, std::forward<Words>(words)...));
  std::fflush(stdout);
}

class Worker {
 public:
  Worker(const Arguments& arguments, cluster::Session& session)
      : arguments_(arguments),
        session_(session),
        agent_(session.store(), session.key("membership"),
               {.task = to_string(session.role().task),
                .incarnation = session.role().incarnation,
                .host = host_name(),
                .pid = ::getpid()}) {}

  int run() {
    fail_at("start");
    agent_.on_drop([this](const std::string&) { dropped_ = true; });
    const bool is_odd = session_.role().task.index == arguments_.odd_worker;
    begin(agent_.enter(is_odd ? R"({"batch": 8})" : R"({"batch": 4})", deadline()));
    fail_at("join");
    do {
      train();
    } while (!agent_.finish(stage_, deadline()) && (change(""), true));
    std::this_thread::sleep_for(milliseconds(arguments_.after_ms));
    agent_.leave(deadline());
    say("finished with {} stages", stage_);
    return 0;
  }

 private:
  static Deadline deadline() { return Deadline::after(std::chrono::minutes(2)); }

  bool is_done() const {
    return arguments_.until.empty() ? stage_ >= arguments_.stages
                                    : std::filesystem::exists(arguments_.until);
  }

  void train() {
    while (!is_done()) {
      try {
        if (agent_.planned_change() != 0) {
          change("");
          continue;
        }
        if (dropped_) throw membership::ViewEnded("the view is over");
        std::this_thread::sleep_for(milliseconds(arguments_.stage_ms));
        agent_.expect_commit(deadline());
        ++stage_;
        agent_.committed(stage_, stage_, 1000.0 / arguments_.stage_ms);
        if (first_stage_) {
          agent_.resumed(stage_, std::chrono::steady_clock::now() - stopped_, redo_);
          first_stage_ = false;
        }
      } catch (const membership::ViewEnded& ended) {
        redo_ = true;
        change(ended.what());
      }
    }
  }

  void change(const std::string& why) {
    stopped_ = std::chrono::steady_clock::now();
    begin(agent_.next_view(stage_, why, deadline()));
  }

  void begin(const membership::View& view) {
    dropped_ = false;
    first_stage_ = true;
    stage_ = std::max<std::int64_t>(view.stage(), 0);
    say("view {} with {} members, from stage {}", view.number, view.size(), stage_);
  }

  void fail_at(const std::string& place) {
    if (session_.role().task.index != arguments_.fail_worker || arguments_.fail != place) return;
    say("fails at {}", place);
    if (arguments_.fail_signal != 0) ::raise(arguments_.fail_signal);
    ::_exit(arguments_.fail_code);
  }

  const Arguments& arguments_;
  cluster::Session& session_;
  membership::Agent agent_;
  std::atomic<bool> dropped_{false};
  std::int64_t stage_ = 0;
  bool first_stage_ = true;
  bool redo_ = false;
  std::chrono::steady_clock::time_point stopped_ = std::chrono::steady_clock::now();
};

int run(int argc, char** argv) {
  Arguments arguments;
  CLI::App app;
  app.add_option("--stages", arguments.stages);
  app.add_option("--stage-ms", arguments.stage_ms);
  app.add_option("--until", arguments.until);
  app.add_option("--fail-worker", arguments.fail_worker);
  app.add_option("--fail-code", arguments.fail_code);
  app.add_option("--fail-signal", arguments.fail_signal);
  app.add_option("--fail", arguments.fail);
  app.add_option("--odd-worker", arguments.odd_worker);
  app.add_option("--after-ms", arguments.after_ms);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw InvalidInput(error.what());
  }
  const auto environment = cluster::Environment::of_this_process();
  const auto session = cluster::Session::join(cluster::discover_role(environment, {}),
                                              cluster::SessionOptions::from(environment));
  try {
    return Worker(arguments, *session).run();
  } catch (const membership::Dismissed& dismissed) {
    say("dismissed: {}", dismissed.what());
    return 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("member_program", [&] { return run(argc, argv); });
}
