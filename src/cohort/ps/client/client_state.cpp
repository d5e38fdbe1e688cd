#include "cohort/ps/client/client_state.h"

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"

namespace cohort::ps {

namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (number == 0) fill_random(&number, sizeof number);
  return number;
}

}  // namespace

ClientState::ClientState(ClientOptions chosen)
    : options(std::move(chosen)), process(random_number()) {
  if (options.servers.empty())
    throw InvalidInput("the job has no parameter servers",
                       {.advice = "Start it with --ps 1, or name them in the cluster."});
  if (options.tls && !options.secret)
    throw InvalidInput("TLS takes its key from the job's secret, and the job has none",
                       {.advice = "Give every task the same COHORT_SECRET_FILE=FILE."});
}

std::string ClientState::server_name(int server) const {
  return fmt::format("ps/{} at {}", server,
                     cluster::to_string(options.servers[static_cast<std::size_t>(server)]));
}

std::string ClientState::worker_name() const { return fmt::format("worker/{}", options.worker); }

void ClientState::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex);
  fail_locked(std::move(error));
}

void ClientState::fail_locked(std::exception_ptr error) {
  if (!failure) failure = std::move(error);
  changed.notify_all();
}

}  // namespace cohort::ps
