#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cohort/capi/cohort_c.h"
#include "cohort/capi/execution/failure.h"
#include "cohort/capi/functions/interrupt.h"
#include "cohort/capi/world/job.h"

// What the opaque types of cohort_c.h are, and how exceptions stay inside.

struct cohort_error {
  cohort::capi::Failure failure;
};

// Handles of jobs and worlds are never given back: a call with an old one is answered with
// COHORT_CLOSED.
struct cohort_job {
  std::mutex opening;                      // held while a world is opened, or the job is left
  std::mutex mutex;                        // guards the two
  std::shared_ptr<cohort::capi::Job> job;  // nullptr: left
  cohort_world* world = nullptr;           // the one opened last
  std::string id, output, dialect;
  cohort_job_info info{};

  std::shared_ptr<cohort::capi::Job> get();  // throws StatusError
};

struct cohort_world {
  std::mutex mutex;                            // guards `world`
  std::shared_ptr<cohort::capi::World> world;  // nullptr: closed
  cohort_world_info info{};

  std::shared_ptr<cohort::capi::World> get();  // throws StatusError
};

struct cohort_call {
  std::shared_ptr<cohort::capi::World> world;  // the engine's callbacks use it
  std::shared_ptr<cohort::capi::RequestEngine> engine;
  cohort::capi::RequestRef request;
};

namespace cohort::capi {

// Fills in *error, where it is wanted, and returns the status.
cohort_status report(const Failure& failure, cohort_error** error) noexcept;

// Runs `body`, and answers what it throws.
template <typename Body>
cohort_status guarded(cohort_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return COHORT_OK;
  } catch (...) {
    return report(current_failure(), error);
  }
}

// Throws InvalidInput that names the argument.
void require(const void* pointer, const char* argument);

// *options as the caller knows it, the rest zeros. NULL: all zeros.
template <typename Options>
Options read_options(const Options* options) {
  Options known{};
  if (options == nullptr) return known;
  const std::size_t bytes =
      options->struct_size < sizeof known ? options->struct_size : sizeof known;
  __builtin_memcpy(&known, options, bytes);
  return known;
}

// Writes as much of `info` as the caller knows of.
template <typename Info>
void write_info(Info info, Info* out) {
  require(out, "info");
  const std::size_t bytes = out->struct_size < sizeof info ? out->struct_size : sizeof info;
  info.struct_size = out->struct_size;
  __builtin_memcpy(out, &info, bytes);
}

}  // namespace cohort::capi
