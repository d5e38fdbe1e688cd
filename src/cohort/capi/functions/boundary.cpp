#include "cohort/capi/functions/boundary.h"

#include <new>

#include "cohort/base/version.h"

using cohort::capi::StatusError;

std::shared_ptr<cohort::capi::Job> cohort_job::get() {
  const std::lock_guard lock(mutex);
  if (!job) throw StatusError({COHORT_CLOSED, "this process has left its job"});
  return job;
}

std::shared_ptr<cohort::capi::World> cohort_world::get() {
  const std::lock_guard lock(mutex);
  if (!world) throw StatusError({COHORT_CLOSED, "the world was closed"});
  return world;
}

namespace cohort::capi {

cohort_status report(const Failure& failure, cohort_error** error) noexcept {
  if (error != nullptr) {
    *error = new (std::nothrow) cohort_error;
    try {
      if (*error != nullptr) (*error)->failure = failure;
    } catch (const std::bad_alloc&) {
      (*error)->failure.status = failure.status;  // without its text
    }
  }
  return failure.status;
}

void require(const void* pointer, const char* argument) {
  if (pointer == nullptr)
    throw InvalidInput(fmt::format("'{}' is NULL", argument), {.advice = "Give a value for it."});
}

}  // namespace cohort::capi

extern "C" {

int32_t cohort_abi_version(void) { return COHORT_ABI_VERSION; }
const char* cohort_version(void) { return cohort::kVersion; }

cohort_status cohort_error_status(const cohort_error* error) {
  return error == nullptr ? COHORT_OK : error->failure.status;
}
const char* cohort_error_message(const cohort_error* error) {
  return error == nullptr ? "" : error->failure.message.c_str();
}
int32_t cohort_error_peer(const cohort_error* error) {
  return error == nullptr ? -1 : error->failure.peer;
}
void cohort_error_free(cohort_error* error) { delete error; }

void cohort_set_interrupt_check(cohort_interrupt_check check, void* user) {
  cohort::capi::set_interrupt_check(check, user);
}

}  // extern "C"
