#include "cohort/parallel/tensors/named_call.h"

#include "cohort/base/error.h"
#include "cohort/collective/backend/call.h"

namespace cohort::parallel {

namespace {

constexpr std::string_view kIn = ", in ";
constexpr std::string_view kMustCall = ", which every worker must call";

template <typename E>
[[noreturn]] void throw_with_call(const E& error, const char* call) {
  ErrorContext context = error.context();
  // Of calls inside each other the outermost is the one that the program made.
  if (context.during.ends_with(kMustCall)) context.during.erase(context.during.rfind(kIn));
  context.during +=
      fmt::format("{}{}{}", context.during.empty() ? kIn.substr(2) : kIn, call, kMustCall);
  throw E(error.message(), std::move(context));
}

}  // namespace

void named_call(const char* call, const std::function<void()>& body) {
  try {
    body();
  } catch (const PeerError& error) {
    throw_with_call(error, call);
  } catch (const TimeoutError& error) {
    throw_with_call(error, call);
  } catch (const collective::MismatchError& error) {
    throw_with_call(error, call);
  }
}

}  // namespace cohort::parallel
