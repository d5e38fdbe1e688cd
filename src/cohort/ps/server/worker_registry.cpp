#include "cohort/ps/server/worker_registry.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

constexpr std::size_t kMaxReplaced = 64;  // processes of a worker that are remembered

}  // namespace

WorkerRegistry::SessionId WorkerRegistry::enter(const Hello& hello, SessionId session) {
  Worker& worker = workers_[hello.worker];
  const bool replaced = hello.incarnation < worker.incarnation ||
                        (hello.incarnation == worker.incarnation &&
                         std::find(worker.replaced.begin(), worker.replaced.end(), hello.process) !=
                             worker.replaced.end());
  if (replaced)
    throw ProtocolError(fmt::format("a newer process is worker/{} already", hello.worker));
  if (hello.incarnation > worker.incarnation) {
    worker.replaced.clear();
  } else if (worker.process != 0 && hello.process != worker.process) {
    worker.replaced.push_back(worker.process);
    if (worker.replaced.size() > kMaxReplaced) worker.replaced.pop_front();
  }
  worker.incarnation = hello.incarnation;
  worker.process = hello.process;
  return std::exchange(worker.session, session);
}

bool WorkerRegistry::leave(int worker, SessionId session) {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || found->second.session != session) return false;
  found->second.session = 0;
  return true;
}

WorkerRegistry::SessionId WorkerRegistry::session_of(int worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? 0 : found->second.session;
}

int WorkerRegistry::connected() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const auto& entry) {
    return entry.second.session != 0;
  }));
}

}  // namespace cohort::ps
