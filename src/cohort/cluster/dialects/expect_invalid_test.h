#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "cohort/base/error.h"

// For tests: bad input must be refused in words that help.
namespace cohort::cluster {

// Runs `action`, which must throw InvalidInput with every one of `parts` in what(), and with
// advice.
template <typename Action>
void expect_invalid(Action action, std::initializer_list<const char*> parts) {
  try {
    action();
  } catch (const InvalidInput& error) {
    std::string text = error.what();
    for (const char* part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
    EXPECT_FALSE(error.context().advice.empty()) << "no advice in: " << text;
    return;
  }
  ADD_FAILURE() << "was not refused; wanted an error with '" << *parts.begin() << "'";
}

}  // namespace cohort::cluster
