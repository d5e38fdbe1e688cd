#include "cohort/base/error.h"

#include <system_error>

namespace cohort {
namespace {

std::string compose(const std::string& message, const ErrorContext& context) {
  std::string where = context.task;
  if (!context.host.empty()) where += (where.empty() ? "on " : " on ") + context.host;
  // Not twice: many messages begin with the call that failed.
  if (!context.during.empty() && message.find(context.during) == std::string::npos)
    where += (where.empty() ? "during " : ", during ") + context.during;
  std::string text = message;
  if (!where.empty()) text += " (" + where + ")";
  if (!context.advice.empty()) text += ". " + context.advice;
  return text;
}

}  // namespace

Error::Error(std::string message, ErrorContext context)
    : std::runtime_error(compose(message, context)),
      message_(std::move(message)),
      context_(std::move(context)) {}

SystemError::SystemError(const std::string& action, int code, ErrorContext context)
    : Error(action + ": " + std::generic_category().message(code), std::move(context)),
      code_(code) {}

namespace detail {

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error(fmt::format("internal error: {} [{} at {}:{}]", message, condition, file, line),
              {.advice = "This is a bug in Cohort; please report it with this line."});
}

}  // namespace detail
}  // namespace cohort
