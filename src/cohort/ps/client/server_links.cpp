#include "cohort/ps/client/server_links.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::ps {

ServerLinks::ServerLinks(ClientState& state)
    : state_(state),
      tls_(state.options.tls ? make_tls_context(*state.options.secret, state.options.job)
                             : nullptr) {
  for (int server = 0; server < state_.servers(); ++server)
    links_.push_back(std::make_unique<ServerLink>(state_, server, loop_, tls_.get()));
  thread_ = std::thread([this] {
    for (const auto& link : links_) link->connect();
    // A failure ends what callers wait for; the loop itself ends when there are no more of them.
    while (!ended_) try {
        loop_.run();
      } catch (...) {
        state_.fail(std::current_exception());
      }
  });
}

ServerLinks::~ServerLinks() {
  loop_.post([this] {
    for (const auto& link : links_) link->close();
    ended_ = true;
    loop_.stop();
  });
  thread_.join();
}

bool ServerLinks::all(const std::function<bool(const LinkState&)>& holds) const {
  return std::all_of(links_.begin(), links_.end(),
                     [&](const auto& link) { return holds(link->state()); });
}

void ServerLinks::enqueue_locked(int server, LinkOutbound::Item item) {
  links_[static_cast<std::size_t>(server)]->enqueue_locked(std::move(item));
}

void ServerLinks::enqueue_to_all_locked(LinkOutbound::Item::Kind kind) {
  for (const auto& link : links_) link->enqueue_locked({kind, 0, nullptr});
}

void ServerLinks::wake() {
  if (wake_posted_.exchange(true)) return;
  loop_.post([this] {
    wake_posted_ = false;
    for (const auto& link : links_) link->kick();
  });
}

void ServerLinks::run_on_loop(const std::function<void()>& call) {
  bool done = false;
  loop_.post([&] {
    call();
    std::lock_guard lock(state_.mutex);
    done = true;
    state_.changed.notify_all();
  });
  Lock lock(state_.mutex);
  state_.changed.wait(lock, [&] { return done; });
}

void ServerLinks::reconnect_all() {
  run_on_loop([this] {
    for (const auto& link : links_) link->reconnect();
  });
}

void ServerLinks::wait(Lock& lock, Deadline deadline, const std::string& what,
                       const std::function<bool()>& ready,
                       const std::function<std::string(int server)>& missing) {
  bool late = false;
  while (true) {
    if (state_.failure) std::rethrow_exception(state_.failure);
    if (ready()) return;
    if (late) break;
    if (deadline.is_never())
      state_.changed.wait(lock);
    else
      late = state_.changed.wait_until(lock, deadline.when()) == std::cv_status::timeout;
  }
  std::vector<std::string> reasons;
  for (int server = 0; server < count(); ++server) {
    const std::string lacks = missing(server);
    if (lacks.empty()) continue;
    const std::string trouble = at(server).trouble_locked();
    reasons.push_back(
        fmt::format("{} {}", state_.server_name(server), trouble.empty() ? lacks : trouble));
  }
  throw TimeoutError(fmt::format("{} did not finish in time: {}", what, join(reasons, "; ")),
                     {.task = state_.worker_name(),
                      .advice = "Look into the logs of those servers, or allow more time."});
}

void ServerLinks::submit(Lock&, const std::shared_ptr<Request>& request) {
  if (state_.failure) std::rethrow_exception(state_.failure);
  state_.requests.add(request);
  for (int server = 0; server < count(); ++server)
    if (request->part(server).is_open())
      enqueue_locked(server, {LinkOutbound::Item::Kind::request, 0, request});
  wake();
}

void ServerLinks::complete(Lock& lock, const std::shared_ptr<Request>& request,
                           const std::string& what, Deadline deadline) {
  submit(lock, request);
  wait(
      lock, deadline, what, [&] { return request->missing == 0 || request->broken; },
      [&](int server) -> std::string {
        return request->part(server).is_open() ? "is connected and has not answered" : "";
      });
  state_.requests.remove(*request);
}

}  // namespace cohort::ps
