#pragma once

#include <cohort/cohort.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace examples {

// Reads what init() left of the command line. False when --help was asked for and answered; throws
// InvalidInput.
inline bool parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw cohort::InvalidInput(error.what(), {.advice = "See --help."});
  }
  return true;
}

}  // namespace examples
