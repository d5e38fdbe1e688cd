#include "cohort/ps/client/client_core.h"

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/ps/client/client_link.h"

namespace cohort::ps {

namespace {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  while (number == 0) fill_random(&number, sizeof number);
  return number;
}

}  // namespace

ClientCore::ClientCore(ClientOptions chosen)
    : options(std::move(chosen)), process(random_number()) {
  if (options.servers.empty())
    throw InvalidInput("the job has no parameter servers",
                       {.advice = "Start it with --ps 1, or name them in the cluster."});
  if (options.tls) {
    if (!options.secret)
      throw InvalidInput("TLS takes its key from the job's secret, and the job has none",
                         {.advice = "Give every task the same COHORT_SECRET_FILE=FILE."});
    tls = make_tls_context(*options.secret, options.job);
  }
  for (int server = 0; server < servers(); ++server)
    links.push_back(std::make_unique<Link>(*this, server));
}

ClientCore::~ClientCore() = default;

std::string ClientCore::server_name(int server) const {
  return fmt::format("ps/{} at {}", server,
                     cluster::to_string(options.servers[static_cast<std::size_t>(server)]));
}

std::string ClientCore::worker_name() const { return fmt::format("worker/{}", options.worker); }

void ClientCore::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex);
  fail_locked(std::move(error));
}

void ClientCore::fail_locked(std::exception_ptr error) {
  if (!failure) failure = std::move(error);
  changed.notify_all();
}

void ClientCore::wake() {
  if (wake_posted_.exchange(true)) return;
  loop.post([this] {
    wake_posted_ = false;
    for (const auto& link : links) link->kick();
  });
}

void ClientCore::run_on_loop(const std::function<void()>& call) {
  bool done = false;
  loop.post([&] {
    call();
    std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
}

void ClientCore::wait(std::unique_lock<std::mutex>& lock, Deadline deadline,
                      const std::string& what, const std::function<bool()>& ready,
                      const std::function<std::string(int server)>& missing) {
  bool late = false;
  while (true) {
    if (failure) std::rethrow_exception(failure);
    if (ready()) return;
    if (late) break;
    if (deadline.is_never())
      changed.wait(lock);
    else
      late = changed.wait_until(lock, deadline.when()) == std::cv_status::timeout;
  }
  std::vector<std::string> reasons;
  for (int server = 0; server < servers(); ++server) {
    const std::string lacks = missing(server);
    if (lacks.empty()) continue;
    const std::string trouble = links[static_cast<std::size_t>(server)]->trouble_locked();
    reasons.push_back(fmt::format("{} {}", server_name(server), trouble.empty() ? lacks : trouble));
  }
  throw TimeoutError(fmt::format("{} did not finish in time: {}", what, join(reasons, "; ")),
                     {.task = worker_name(),
                      .advice = "Look into the logs of those servers, or allow more time."});
}

void ClientCore::submit(std::unique_lock<std::mutex>&, const std::shared_ptr<Request>& request) {
  if (failure) std::rethrow_exception(failure);
  if (request->id == 0) request->id = next_request++;
  for (const auto& part : request->parts) request->missing += part.wanted && !part.done ? 1 : 0;
  requests.emplace(request->id, request);
  for (std::size_t server = 0; server < links.size(); ++server)
    if (request->parts[server].wanted && !request->parts[server].done)
      links[server]->enqueue_locked({Link::Item::Kind::request, 0, request});
  wake();
}

void ClientCore::complete(std::unique_lock<std::mutex>& lock,
                          const std::shared_ptr<Request>& request, const std::string& what,
                          Deadline deadline) {
  submit(lock, request);
  wait(
      lock, deadline, what, [&] { return request->missing == 0 || request->broken; },
      [&](int server) -> std::string {
        const Request::Part& part = request->parts[static_cast<std::size_t>(server)];
        return part.wanted && !part.done ? "is connected and has not answered" : "";
      });
  forget(request);
}

void ClientCore::forget(const std::shared_ptr<Request>& request) { requests.erase(request->id); }

}  // namespace cohort::ps
