#include "cohort/ps/client/client.h"

#include <optional>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_layout.h"
#include "cohort/ps/client/client_state.h"
#include "cohort/ps/client/model_agreement.h"
#include "cohort/ps/client/server_links.h"
#include "cohort/ps/client/state_copy.h"
#include "cohort/ps/client/step_calls.h"
#include "cohort/ps/client/value_reader.h"

namespace cohort::ps {

// What is there from begin() on.
struct ClientSession {
  ClientSession(ServerLinks& links, std::shared_ptr<const ClientLayout> shared)
      : layout(std::move(shared)), values(links, *layout), steps(links, *layout, values) {}

  const std::shared_ptr<const ClientLayout> layout;
  ValueReader values;
  StepCalls steps;
};

struct Client::Parts {
  explicit Parts(ClientOptions options) : state(std::move(options)), links(state) {}

  ClientSession& begun() {
    COHORT_CHECK(session.has_value(), "begin() comes before this call");
    return *session;
  }

  ClientState state;
  ServerLinks links;
  std::optional<ClientSession> session;
};

Client::Client(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Client::~Client() = default;

std::unique_ptr<Client> Client::connect(ClientOptions options, Deadline deadline) {
  auto parts = std::make_unique<Parts>(std::move(options));
  ServerLinks& links = parts->links;
  // The chief also asks whether they have a model.
  const bool chief = parts->state.options.chief;
  const auto is_there = [chief](const LinkState& link) {
    return chief ? link.welcome : link.proven;
  };
  {
    ServerLinks::Lock lock(parts->state.mutex);
    links.wait(
        lock, deadline, "connecting to the parameter servers", [&] { return links.all(is_there); },
        [&](int server) -> std::string {
          return is_there(links.at(server)) ? "" : "has not greeted back";
        });
  }
  return std::unique_ptr<Client>(new Client(std::move(parts)));
}

bool Client::servers_have_model() const {
  std::lock_guard lock(parts_->state.mutex);
  return parts_->links.all([](const LinkState& link) { return !link.lacks_model; });
}

std::uint64_t Client::begin(const ModelSpec& spec, const InitialState* initial, Deadline deadline) {
  COHORT_CHECK(!parts_->session, "begin() is called once");
  ClientState& state = parts_->state;
  auto layout = std::make_shared<const ClientLayout>(spec, state.options.worker, state.servers());
  parts_->session.emplace(parts_->links, layout);
  {
    std::lock_guard lock(state.mutex);
    state.layout = layout;
    state.step.set_layout(layout);
    for (int server = 0; server < state.servers(); ++server)
      parts_->links.at(server).set_layout_locked();
  }
  return agree_on_model(parts_->links, initial, deadline);
}

std::span<const Slice> Client::slices() const { return parts_->begun().layout->slices; }

void Client::read(std::span<const BlockRun> runs, std::uint64_t clock, Deadline deadline) {
  parts_->begun().values.read(runs, clock, 0, deadline);
}

void Client::read_after(std::span<const BlockRun> runs, std::uint64_t finished, Deadline deadline) {
  parts_->begun().values.read_after(runs, finished, deadline);
}

void Client::begin_step(const StepStart& start) { parts_->begun().steps.begin_step(start); }

void Client::push(int block, std::span<const std::byte* const> partials) {
  parts_->begun().steps.push(block, partials);
}

StepOutcome Client::finish_step(const StepEnd& end, std::span<const BlockRun> runs,
                                Deadline deadline) {
  return parts_->begun().steps.finish_step(end, runs, deadline);
}

void Client::pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                       float* values, Deadline deadline) {
  parts_->begun().steps.pull_rows(table, keys, sequence, values, deadline);
}

void Client::push_rows(int table, std::span<const std::uint64_t> keys,
                       std::span<const float> gradients) {
  parts_->begun().steps.push_rows(table, keys, gradients);
}

void Client::snapshot(const StateSink& sink, Deadline deadline) {
  parts_->begun();
  copy_state(parts_->links, sink, deadline);
}

std::vector<std::string> Client::stats(Deadline deadline) {
  const auto request = Request::to_all(Request::Kind::stats, parts_->links.count());
  ServerLinks::Lock lock(parts_->state.mutex);
  parts_->links.complete(lock, request, "asking for statistics", deadline);
  std::vector<std::string> texts;
  for (const Request::Part& part : request->parts) texts.push_back(part.text);
  return texts;
}

std::uint64_t Client::reconnects() const { return parts_->state.reconnects; }

void Client::leave(Deadline deadline) {
  const auto request = Request::to_all(Request::Kind::leave, parts_->links.count());
  ServerLinks::Lock lock(parts_->state.mutex);
  parts_->links.complete(lock, request, "leaving the parameter servers", deadline);
}

}  // namespace cohort::ps
