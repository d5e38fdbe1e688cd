#include "cohort/parallel/strategies/servers.h"

#include <utility>

#include "cohort/base/error.h"

namespace cohort::parallel {

Servers::Servers(std::shared_ptr<collective::World> world, ServerFlags flags,
                 ps::ClientOptions client)
    : world_(std::move(world)), flags_(std::move(flags)), options_(std::move(client)) {}

int Servers::count() const {
  return options_.servers.empty() ? flags_.num_ps : static_cast<int>(options_.servers.size());
}

std::string Servers::output() const { return world_->session->role().output; }

void Servers::claim() {
  if (std::exchange(claimed_, true))
    throw InvalidInput(
        "the parameter servers of this job hold the model of another Trainer already",
        {.advice = "Use one Trainer a job with parameter_server (fit() may be called "
                   "several times), or multi_worker_mirrored for several."});
}

ps::Client& Servers::client(Deadline deadline) {
  if (!client_) client_ = ps::Client::connect(options_, deadline);
  return *client_;
}

void Servers::leave_note(const std::string& name, const std::string& text, Deadline deadline) {
  cluster::Session& session = *world_->session;
  session.store().set(session.key("ps/" + name), text, deadline);
}

std::optional<std::string> Servers::find_note(const std::string& name, Deadline deadline) {
  cluster::Session& session = *world_->session;
  return session.store().try_get(session.key("ps/" + name), deadline);
}

std::string Servers::read_note(const std::string& name, Deadline deadline) {
  cluster::Session& session = *world_->session;
  return session.store().get(session.key("ps/" + name), deadline);
}

bool Servers::wait_for_all(const std::string& name, Deadline deadline) {
  leave_note(fmt::format("{}/{}", name, options_.worker), "here", deadline);
  try {
    for (int worker = 0; worker < options_.workers; ++worker)
      read_note(fmt::format("{}/{}", name, worker), deadline);
  } catch (const TimeoutError&) {
    return false;
  }
  return true;
}

void Servers::leave(Deadline deadline) {
  if (client_) client_->leave(deadline);
}

}  // namespace cohort::parallel
