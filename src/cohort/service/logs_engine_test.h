#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/engine/engine.h"

namespace cohort::service {

// An engine of attempts whose logs are texts in memory; it starts nothing.
class LogsEngine : public engine::Engine {
 public:
  std::map<std::string, std::string, std::less<>> logs;  // by attempt and task: "1 worker:0"
  bool ended = false;
  bool failing = false;

  std::string_view name() const override { return "local"; }
  engine::Abilities abilities() const override { return {}; }
  void check(const jobspec::ResolvedJob&) const override {}
  void submit(const engine::AttemptRequest&) override {}
  engine::AttemptStatus observe(const std::filesystem::path&) const override { return {}; }
  engine::LogChunk read_log(const std::filesystem::path& folder, std::string_view task,
                            std::uint64_t offset, std::size_t most_bytes) const override {
    if (failing) throw SystemError("cannot read the log", EIO);
    const auto found = logs.find(folder.filename().string() + " " + std::string(task));
    if (found == logs.end()) return {.bytes = "", .next = offset, .end = ended};
    const auto& log = found->second;
    auto bytes = offset < log.size() ? log.substr(offset, most_bytes) : std::string();
    const auto next = offset + bytes.size();
    return {.bytes = std::move(bytes), .next = next, .end = ended && next >= log.size()};
  }
  void stop(const std::filesystem::path&) override {}
  void scale(const std::filesystem::path&, int) override {}
  std::vector<std::filesystem::path> list(const std::filesystem::path&) const override {
    return {};
  }
};

}  // namespace cohort::service
