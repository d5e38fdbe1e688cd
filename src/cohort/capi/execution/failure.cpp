#include "cohort/capi/execution/failure.h"

#include <new>

#include "cohort/base/process/dismissed.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/collective/backend/call.h"

namespace cohort::capi {

StatusError::StatusError(Failure failure) : Error(failure.message), failure_(std::move(failure)) {}

Failure current_failure() noexcept try {
  const auto as = [](cohort_status status, const Error& error) {
    return Failure{status, error.what(), error.context().peer_rank};
  };
  try {
    throw;
  } catch (const StatusError& error) {
    return error.failure();
  } catch (const Interrupted& error) {
    return as(COHORT_INTERRUPTED, error);
  } catch (const Dismissed& error) {
    return {COHORT_DISMISSED, error.what()};
  } catch (const InvalidInput& error) {
    return as(COHORT_INVALID, error);
  } catch (const collective::MismatchError& error) {
    return as(COHORT_INTERNAL, error);
  } catch (const PeerError& error) {
    return as(COHORT_PEER, error);
  } catch (const TimeoutError& error) {
    return as(COHORT_TIMED_OUT, error);
  } catch (const AuthError& error) {
    return as(COHORT_AUTH, error);
  } catch (const Error& error) {
    return as(COHORT_INTERNAL, error);
  } catch (const std::bad_alloc&) {
    return {COHORT_INTERNAL, "there is not enough memory"};
  } catch (const std::exception& error) {
    return {COHORT_INTERNAL, error.what()};
  } catch (...) {
    return {COHORT_INTERNAL, "something unknown was thrown"};
  }
} catch (...) {
  return {COHORT_INTERNAL, {}};  // not even memory for the message
}

}  // namespace cohort::capi
