#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cohort::train {

// What the callbacks of a replica's process ask for.
struct CallbackRequests {
  // What the reason of an interruption begins with.
  static constexpr std::string_view kInterrupted = "interrupted: ";

  std::string stop;        // why training should end; empty: it should not
  bool broadcast = false;  // worker 0's values, everywhere
  bool interrupts() const { return stop.starts_with(kInterrupted); }
};

// What all replicas do: end training, StepSync::broadcast_from_first().
struct AgreedRequests {
  bool stop = false;
  bool interrupted = false;  // stop, and no replica asked for the end
  bool broadcast = false;
};

// What the replicas of a job decide together. Every replica makes the same calls.
// Threads, ownership and failure: as StepSync.
class Agreement {
 public:
  virtual ~Agreement() = default;

  // InvalidInput that names the first of `values` (an object) that another replica has otherwise.
  virtual void agree(const nlohmann::json& values) = 0;
  // What replica 0 makes, on every replica. Only called there, and only where no replica has it yet.
  virtual std::string broadcast_text(const std::function<std::string()>& make) = 0;
  // After the events that callbacks saw.
  virtual AgreedRequests agree_on_requests(const CallbackRequests& requests) = 0;
};

}  // namespace cohort::train
