#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/service/bare_engine_test.h"

namespace cohort::service {

// The end of the service's process, as tests play it.
struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed") {}
};

// What goes on behind a FakeEngine: it outlives engines and managers, as processes do.
struct FakeWorld {
  struct Attempt {
    engine::AttemptRequest request;
    engine::AttemptStatus status;
    int stops = 0;
    std::vector<int> scales;
  };
  std::map<std::string, Attempt> attempts;  // by folder
  int submits = 0;                          // calls
  int observes = 0;
  std::function<void(const engine::AttemptRequest&)> before_submit, after_submit;
  std::function<void(const std::filesystem::path& folder)> before_observe;

  std::vector<Attempt*> of(const std::string& job) {
    std::vector<Attempt*> found;
    for (auto& [folder, attempt] : attempts)
      if (attempt.request.id.rfind(job + ".", 0) == 0) found.push_back(&attempt);
    return found;
  }
};

class FakeEngine : public BareEngine {
 public:
  FakeEngine(FakeWorld& world, engine::Abilities abilities)
      : world_(world), abilities_(abilities) {}

  engine::Abilities abilities() const override { return abilities_; }
  void submit(const engine::AttemptRequest& request) override {
    ++world_.submits;
    if (world_.before_submit) world_.before_submit(request);
    auto [found, is_new] = world_.attempts.try_emplace(request.folder.string());
    if (is_new) {
      found->second.request = request;
      found->second.status.state = engine::AttemptState::starting;
      found->second.status.workers = request.instances;
    }
    if (world_.after_submit) world_.after_submit(request);
  }
  engine::AttemptStatus observe(const std::filesystem::path& folder) const override {
    ++world_.observes;
    if (world_.before_observe) world_.before_observe(folder);
    const auto found = world_.attempts.find(folder.string());
    return found == world_.attempts.end() ? engine::AttemptStatus{} : found->second.status;
  }
  void stop(const std::filesystem::path& folder) override {
    const auto found = world_.attempts.find(folder.string());
    if (found == world_.attempts.end()) return;
    auto& attempt = found->second;
    ++attempt.stops;
    if (!engine::has_ended(attempt.status.state))
      attempt.status.state = engine::AttemptState::stopped;
  }
  void scale(const std::filesystem::path& folder, int workers) override {
    world_.attempts.at(folder.string()).scales.push_back(workers);
  }

 private:
  FakeWorld& world_;
  engine::Abilities abilities_;
};

}  // namespace cohort::service
