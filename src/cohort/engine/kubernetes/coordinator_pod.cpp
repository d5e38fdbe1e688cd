#include "cohort/engine/kubernetes/coordinator_pod.h"

#include <csignal>
#include <mutex>

#include "cohort/base/log/log.h"
#include "cohort/cluster/store/store_server.h"
#include "cohort/engine/kubernetes/pods.h"
#include "cohort/membership/service/coordinator_service.h"

namespace cohort::engine::kubernetes {
namespace {

using membership::MembershipEvent;

constexpr std::chrono::seconds kLeaveTime{10};  // for members to close their connections

}  // namespace

int run_coordinator(const launch::JobOptions& options, const Secret& secret) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before threads begin

  cluster::StoreServer store({.bind = {"", kTaskPort}, .secret = secret});
  const pthread_t waiter = ::pthread_self();
  std::mutex mutex;
  int code = 143;
  const membership::CoordinatorService coordinator(membership::CoordinatorServiceOptions{
      .store = {"127.0.0.1", kTaskPort},
      .secret = secret,
      .prefix = membership::mailbox_prefix(options.id, 1),
      .coordinator = {.least = options.elastic->least,
                      .most = options.elastic->most,
                      .initial = options.elastic->first.value_or(options.elastic->least),
                      .lease = options.elastic->lease,
                      .member_patience = options.elastic->timeout},
      .on_event = [&](const MembershipEvent& event) {
        if (event.kind != MembershipEvent::Kind::proposed && !event.text.empty())
          log::info("membership: {}", event.text);
        if (event.kind != MembershipEvent::Kind::over &&
            event.kind != MembershipEvent::Kind::failed)
          return;
        const std::lock_guard lock(mutex);
        code = event.kind == MembershipEvent::Kind::over ? 0 : 1;
        ::pthread_kill(waiter, SIGUSR1);
      }});
  int signal = 0;
  ::sigwait(&signals, &signal);
  if (signal == SIGUSR1)
    store.wait_for_clients_at_most(1, Deadline::after(kLeaveTime));  // the coordinator's own
  const std::lock_guard lock(mutex);
  return signal == SIGUSR1 ? code : 143;
}

}  // namespace cohort::engine::kubernetes
