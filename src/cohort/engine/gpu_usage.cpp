#include "cohort/engine/gpu_usage.h"

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/engine/bounded_command.h"

namespace cohort::engine {
namespace {

constexpr std::chrono::seconds kGpuAnswerTime{2};
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostMebibytes = std::uint64_t{1} << 32;

}  // namespace

std::map<pid_t, std::uint64_t> parse_gpu_memory(std::string_view csv) {
  std::map<pid_t, std::uint64_t> memory;
  for (const std::string& line : split(csv, '\n')) {
    const auto fields = split(line, ',');
    if (fields.size() != 2) continue;
    const auto pid = parse_unsigned(std::string(trim(fields[0])));
    const auto used = parse_unsigned(std::string(trim(fields[1])));
    if (!pid || !used || *pid == 0 || *pid > INT32_MAX || *used > kMostMebibytes) continue;
    memory[static_cast<pid_t>(*pid)] += *used * kMebibyte;  // one line a GPU
  }
  return memory;
}

std::map<pid_t, std::uint64_t> gpu_memory_by_process() {
  try {
    const CommandAnswer answer = run_command(
        {"nvidia-smi", "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits"},
        kGpuAnswerTime);
    if (answer.ok()) return parse_gpu_memory(answer.output);
  } catch (const Error&) {  // no such program
  }
  return {};
}

}  // namespace cohort::engine
