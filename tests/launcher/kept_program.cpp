// Tasks that die and come back alone: the parameter server twice, going on from a counter in the
// memory that it keeps; worker/1 once, joining its job again. See restart_test.py.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "cohort/base/error.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/base/process/run_main.h"
#include "cohort/cluster/session/session.h"

namespace {

using namespace cohort;
using cluster::Session;
using cluster::TaskEvent;

template <typename... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print("{}\n", fmt::format(format, std::forward<Arguments>(arguments)...));
  std::fflush(stdout);
}

const char* name(TaskEvent event) {
  switch (event) {
    case TaskEvent::lost:
      return "lost";
    case TaskEvent::returned:
      return "returned";
    case TaskEvent::done:
      return "done";
    case TaskEvent::gone:
      return "gone";
  }
  return "";
}

int count_life(int state) {
  int lives = 0;
  if (::pread(state, &lives, sizeof lives, 0) < 0) throw SystemError("pread", errno);
  ++lives;
  if (::pwrite(state, &lives, sizeof lives, 0) < 0) throw SystemError("pwrite", errno);
  return lives;
}

void serve(Session& session, int lives, Deadline deadline) {
  say("life {}", lives);
  if (lives <= 2) ::raise(SIGKILL);
  auto tell = [&](const cluster::TaskId& task, TaskEvent event) {
    say("{} is {}", to_string(task), name(event));
    session.store().set(session.key("watched"), "", deadline);
  };
  auto gone = session.serve_through_losses(std::chrono::minutes(1), tell, deadline);
  say("{} are gone", gone.size());
}

void train(Session& session, RestartState& memory, Deadline deadline) {
  const auto lives =
      session.store().add(session.key("lives/" + to_string(session.role().task)), 1, deadline);
  if (session.role().rank == 1 && lives == 1) {
    session.store().get(session.key("watched"), deadline);
    ::raise(SIGKILL);
  }
  memory.allow_restart(false);
  session.done(deadline);
}

int run(int argc, char** argv) {
  const auto environment = cluster::Environment::of_this_process();
  const auto role = cluster::discover_role(environment, {argv + 1, argv + argc});
  auto memory = RestartState::from_variables(environment.find_value(kRestartFlagVariable),
                                             environment.find_value(kRestartStateVariable));
  if (!memory) throw InvalidInput("no launcher would start this task again");
  memory->allow_restart(true);
  const auto session = Session::join(role, cluster::SessionOptions::from(environment));
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  if (role.is_training())
    train(*session, *memory, deadline);
  else
    serve(*session, count_life(memory->state_file().get()), deadline);
  session->close(deadline);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("kept_program", [&] { return run(argc, argv); });
}
