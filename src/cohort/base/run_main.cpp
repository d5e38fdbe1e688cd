#include "cohort/base/run_main.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "cohort/base/dismissed.h"
#include "cohort/base/log.h"

namespace cohort {

namespace {

// LibTorch's errors end in the functions that were called, which tell the reader of a program's
// last line nothing.
std::string_view without_stack_trace(std::string_view what) {
  return what.substr(0, what.find("\nException raised from "));
}

}  // namespace

int run_main(std::string_view program, const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const Dismissed& error) {
    log::info("{}", error.what());
    return 0;
  } catch (const InvalidInput& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, without_stack_trace(error.what()));
    return 1;
  }
}

}  // namespace cohort
