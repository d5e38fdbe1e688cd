#include "cohort/service/http/api_error.h"

#include <cerrno>
#include <new>
#include <nlohmann/json.hpp>

#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/service/store/run_store.h"

namespace cohort::service {
namespace {

bool is_disk_trouble(int code) {
  return code == ENOSPC || code == EDQUOT || code == EROFS || code == EIO || code == EFBIG;
}

HttpResponse response_of(int status, const Error& error) {
  return error_response(status, error.message(), error.context().advice);
}

HttpResponse response_of(const SystemError& error) {
  if (is_disk_trouble(error.code()))
    return error_response(503, error.message(),
                          error.context().advice.empty()
                              ? "Make room on the disk of the service's folder, or remove jobs: "
                                "cohort delete JOB"
                              : error.context().advice);
  if (is_shortage(error)) return error_response(503, error.message(), limits_advice());
  log::error("API: {}", error.what());
  return response_of(500, error);
}

}  // namespace

HttpResponse json_response(int status, std::string json) {
  HttpResponse response{.status = status, .body = std::move(json), .type = "application/json"};
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

HttpResponse error_response(int status, std::string_view message, std::string_view advice) {
  nlohmann::ordered_json error;
  error["message"] = message;
  error["advice"] = nullptr;
  if (!advice.empty()) error["advice"] = advice;
  nlohmann::ordered_json body;
  body["error"] = std::move(error);
  HttpResponse response = json_response(
      status, body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse response_of(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& refused) {
    return response_of(refused.status(), refused);
  } catch (const NoSuchJob& none) {
    return response_of(404, none);
  } catch (const AmbiguousJob& several) {
    return response_of(409, several);
  } catch (const InvalidInput& wrong) {
    return response_of(400, wrong);
  } catch (const SystemError& refused) {
    return response_of(refused);
  } catch (const TimeoutError& busy) {
    return response_of(503, busy);
  } catch (const std::bad_alloc&) {
    return error_response(503, "the service is out of memory", limits_advice());
  } catch (const std::exception& other) {
    log::error("API: {}", other.what());
    return error_response(500, other.what(), "The service's log may tell more.");
  }
}

HttpResponse or_conflict(const std::function<HttpResponse()>& change) {
  try {
    return change();
  } catch (const NoSuchJob&) {
    throw;
  } catch (const AmbiguousJob&) {
    throw;
  } catch (const InvalidInput& wrong) {
    throw ApiError(409, wrong.message(), wrong.context());
  }
}

}  // namespace cohort::service
