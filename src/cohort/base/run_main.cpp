#include "cohort/base/run_main.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "cohort/base/dismissed.h"
#include "cohort/base/log.h"

namespace cohort {

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
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return 1;
  }
}

}  // namespace cohort
