#include "cohort/ps/server/serve.h"

#include <exception>
#include <thread>

#include "cohort/base/log/log.h"

namespace cohort::ps {

namespace {

void tell(const cluster::TaskId& task, cluster::TaskEvent event) {
  switch (event) {
    case cluster::TaskEvent::lost:
      return log::warning("{} is gone; waiting for it to come back", to_string(task));
    case cluster::TaskEvent::returned:
      return log::info("{} is back", to_string(task));
    case cluster::TaskEvent::gone:
      return log::warning("{} did not come back", to_string(task));
    case cluster::TaskEvent::done:
      return;
  }
}

void prepare_for_kill(ServerOptions& options, RestartState* keep, const std::string& task) {
  if (keep != nullptr) {
    if (options.durability == Durability::process) options.memory = keep->state_file();
    // Before it recovers: it may be killed meanwhile, too.
    keep->allow_restart(options.durability != Durability::none);
  } else if (options.durability == Durability::process) {
    log::warning(
        "{} keeps nothing when it is killed: durability 'process' needs a launcher that starts it "
        "again (cohort run, without --task-restarts 0)",
        task);
  }
}

}  // namespace

void serve(cluster::Session& session, ServerOptions options, RestartState* keep,
           Deadline deadline) {
  prepare_for_kill(options, keep, to_string(session.role().task));
  const auto patience = options.worker_timeout;
  Server server(std::move(options));
  {
    std::jthread ending([&] {
      try {
        session.serve_through_losses(patience, tell, deadline);
        server.finish();
      } catch (...) {
        server.fail(std::current_exception());
      }
    });
    try {
      server.run();
    } catch (...) {
      session.store().close();  // ends serve_through_losses() where it still waits
      throw;
    }
  }
}

}  // namespace cohort::ps
