#pragma once

#include <exception>
#include <functional>
#include <string>

#include "cohort/base/error.h"
#include "cohort/base/net/http_message.h"

// Answers in JSON, and what becomes of exceptions: {"error": {"message", "advice"}}. Functions
// without state.
namespace cohort::service {

// A request that is answered with this status.
class ApiError : public Error {
 public:
  ApiError(int status, std::string message, ErrorContext context = {})
      : Error(std::move(message), std::move(context)), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

// No browser keeps it: who is signed in may change.
HttpResponse json_response(int status, std::string json);
HttpResponse error_response(int status, std::string_view message, std::string_view advice = {});

// The answer to an exception: 404 for NoSuchJob, 409 for AmbiguousJob, 400 for InvalidInput
// otherwise; 503 where the machine fails for now (a full disk, a busy run store); 500, and a line
// in the log, for the rest.
HttpResponse response_of(std::exception_ptr error);

// Runs what may be refused because of a job's state: InvalidInput about anything but which job is
// meant becomes a 409.
HttpResponse or_conflict(const std::function<HttpResponse()>& change);

}  // namespace cohort::service
