#pragma once

#include <string>
#include <vector>

#include "cohort/engine/engine.h"

namespace cohort::service {

// An engine that starts nothing and knows nothing: tests' engines do what they need of it.
class BareEngine : public engine::Engine {
 public:
  std::string_view name() const override { return "local"; }
  engine::Abilities abilities() const override { return {}; }
  void check(const jobspec::ResolvedJob&, const std::filesystem::path&) const override {}
  void submit(const engine::AttemptRequest&) override {}
  engine::AttemptStatus observe(const std::filesystem::path&) const override { return {}; }
  engine::LogChunk read_log(const std::filesystem::path&, std::string_view, std::uint64_t,
                            std::size_t) const override {
    return {};
  }
  void stop(const std::filesystem::path&) override {}
  void scale(const std::filesystem::path&, int) override {}
  std::vector<std::filesystem::path> list(const std::filesystem::path&) const override {
    return {};
  }
};

}  // namespace cohort::service
