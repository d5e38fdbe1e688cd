#include "cohort/tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

[[noreturn]] void throw_unexpected(const CLI::App& app, const std::string& word) {
  if (!word.starts_with("-"))
    throw InvalidInput(
        fmt::format("unexpected '{}'", word),
        {.advice = app.get_name() == "run" ? "Put the program behind --, as in: cohort run -n 2 -- "
                                             "./train --epochs 3"
                                           : fmt::format("See: cohort {} --help", app.get_name())});
  std::string name = word.substr(0, word.find('='));
  std::string meant = nearest(name.substr(name.find_first_not_of('-')), long_option_names(app));
  throw InvalidInput(fmt::format("unknown option '{}'", name),
                     {.advice = meant.empty() ? fmt::format("See: cohort {} --help", app.get_name())
                                              : fmt::format("Did you mean --{}?", meant)});
}

}  // namespace

std::vector<std::string> long_option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back(name);
  return names;
}

bool parse_words(CLI::App& app, std::vector<std::string> words) {
  app.allow_extras();
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw InvalidInput(error.what(),
                       {.advice = fmt::format("See: cohort {} --help", app.get_name())});
  }
  if (auto extras = app.remaining(); !extras.empty()) throw_unexpected(app, extras.front());
  return true;
}

}  // namespace cohort::tools
