#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <string>

#include "cohort/base/error.h"
#include "cohort/service/bare_engine_test.h"

namespace cohort::service {

// An engine of attempts whose logs are texts in memory; it starts nothing.
class LogsEngine : public BareEngine {
 public:
  std::map<std::string, std::string, std::less<>> logs;  // by attempt and task: "1 worker:0"
  bool ended = false;
  bool failing = false;

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
};

}  // namespace cohort::service
