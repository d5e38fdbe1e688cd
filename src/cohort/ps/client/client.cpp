#include "cohort/ps/client/client.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_impl.h"

namespace cohort::ps {

Client::Impl::Impl(ClientOptions options) : core_(std::move(options)) {
  thread_ = std::thread([this] {
    for (const auto& link : core_.links) link->dial();
    // A failure ends what callers wait for; the loop itself ends when there are no more of them.
    while (!ended_) try {
        core_.loop.run();
      } catch (...) {
        core_.fail(std::current_exception());
      }
  });
}

Client::Impl::~Impl() {
  core_.loop.post([this] {
    for (const auto& link : core_.links) link->close();
    ended_ = true;
    core_.loop.stop();
  });
  thread_.join();
}

void Client::Impl::connect(Deadline deadline) {
  std::unique_lock lock(core_.mutex);
  // The chief also asks whether they have a model.
  const auto is_there = [&](const Link& link) {
    return core_.options.chief ? link.is_welcome_locked() : link.is_proven_locked();
  };
  core_.wait(
      lock, deadline, "connecting to the parameter servers",
      [&] {
        return std::all_of(core_.links.begin(), core_.links.end(),
                           [&](const auto& link) { return is_there(*link); });
      },
      [&](int server) -> std::string {
        return is_there(*core_.links[static_cast<std::size_t>(server)]) ? ""
                                                                        : "has not greeted back";
      });
}

bool Client::Impl::servers_have_model() {
  std::lock_guard lock(core_.mutex);
  return std::none_of(core_.links.begin(), core_.links.end(),
                      [](const auto& link) { return link->lacks_model_locked(); });
}

std::shared_ptr<Request> Client::Impl::request_to_all(Request::Kind kind) {
  auto request = std::make_shared<Request>(kind, core_.servers());
  for (auto& part : request->parts) part.wanted = true;
  return request;
}

std::vector<std::string> Client::Impl::stats(Deadline deadline) {
  const auto request = request_to_all(Request::Kind::stats);
  std::unique_lock lock(core_.mutex);
  core_.complete(lock, request, "asking for statistics", deadline);
  std::vector<std::string> texts;
  for (const auto& part : request->parts) texts.push_back(part.text);
  return texts;
}

void Client::Impl::leave(Deadline deadline) {
  const auto request = request_to_all(Request::Kind::leave);
  std::unique_lock lock(core_.mutex);
  core_.complete(lock, request, "leaving the parameter servers", deadline);
}

const ClientLayout& Client::Impl::layout() const {
  COHORT_CHECK(layout_ != nullptr, "begin() comes before this call");
  return *layout_;
}

std::span<const Slice> Client::Impl::slices() const { return layout().slices; }

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

std::unique_ptr<Client> Client::connect(ClientOptions options, Deadline deadline) {
  auto impl = std::make_unique<Impl>(std::move(options));
  impl->connect(deadline);
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

bool Client::servers_have_model() const { return impl_->servers_have_model(); }
std::uint64_t Client::begin(const ModelSpec& spec, const InitialState* initial, Deadline deadline) {
  return impl_->begin(spec, initial, deadline);
}
std::span<const Slice> Client::slices() const { return impl_->slices(); }
void Client::read_after(std::span<const BlockRun> runs, std::uint64_t finished, Deadline deadline) {
  impl_->read_after(runs, finished, deadline);
}
void Client::read(std::span<const BlockRun> runs, std::uint64_t clock, Deadline deadline) {
  impl_->read(runs, clock, 0, deadline);
}
void Client::begin_step(const StepStart& start) { impl_->begin_step(start); }
void Client::push(int block, std::span<const std::byte* const> partials) {
  impl_->push(block, partials);
}
StepOutcome Client::finish_step(const StepEnd& end, std::span<const BlockRun> runs,
                                Deadline deadline) {
  return impl_->finish_step(end, runs, deadline);
}
void Client::pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                       float* values, Deadline deadline) {
  impl_->pull_rows(table, keys, sequence, values, deadline);
}
void Client::push_rows(int table, std::span<const std::uint64_t> keys,
                       std::span<const float> gradients) {
  impl_->push_rows(table, keys, gradients);
}
void Client::snapshot(const StateSink& sink, Deadline deadline) { impl_->snapshot(sink, deadline); }
std::vector<std::string> Client::stats(Deadline deadline) { return impl_->stats(deadline); }
std::uint64_t Client::reconnects() const { return impl_->reconnects(); }
void Client::leave(Deadline deadline) { impl_->leave(deadline); }

}  // namespace cohort::ps
