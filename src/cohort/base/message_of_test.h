#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>

namespace cohort {

// For tests: what `call` says when it throws an Expected. Anything else fails the test.
template <typename Expected>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (...) {
    ADD_FAILURE() << "another error than expected";
    throw;  // GoogleTest shows what it is
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace cohort
