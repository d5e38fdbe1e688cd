#include "cohort/tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

// What others call it: {their option, ours}. For commands that have ours.
constexpr std::pair<std::string_view, std::string_view> kOtherOptions[] = {
    {"nproc-per-node", "workers"},
    {"ntasks", "workers"},
    {"num-proc", "workers"},
    {"num-workers", "workers"},
    {"np", "workers"},
    {"nnodes", "instance-count"},
    {"nodes", "instance-count"},
    {"N", "instance-count"},
    {"cpus-per-task", "cores"},
    {"cpus", "cores"},
    {"mem", "memory"},
    {"time", "max-run"},
    {"gres", "gpus"},
    {"gpus-per-node", "gpus"},
    {"job-name", "name"},
    {"partition", "queue"},
    {"max-restarts", "restarts"},
};

// The option that was probably meant; "": who knows.
std::string meant_option(const CLI::App& app, std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& [other, ours] : kOtherOptions)
    if (name == other && app.get_option_no_throw(fmt::format("--{}", ours)))
      return std::string(ours);
  return name.size() < 3 ? std::string() : nearest(name, long_option_names(app));
}

[[noreturn]] void throw_unexpected(const CLI::App& app, const std::string& word) {
  if (!word.starts_with("-")) {
    const bool takes_program = app.get_name() == "run" || app.get_name() == "submit";
    throw InvalidInput(
        fmt::format("unexpected '{}'", word),
        {.advice = takes_program ? fmt::format("Put the program behind --, as in: cohort {} -n 2 "
                                               "-- ./train --epochs 3",
                                               app.get_name())
                                 : fmt::format("See: cohort {} --help", app.get_name())});
  }
  std::string name = word.substr(0, word.find('='));
  const std::size_t begin = name.find_first_not_of('-');
  const std::string meant = begin == name.npos ? "" : meant_option(app, name.substr(begin));
  throw InvalidInput(fmt::format("unknown option '{}'", name),
                     {.advice = meant.empty() ? fmt::format("See: cohort {} --help", app.get_name())
                                              : fmt::format("Did you mean --{}?", meant)});
}

// CLI11's own words for a value that is missing or of the wrong kind, as "--option TEXT".
[[noreturn]] void throw_bad_value(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  std::string see = fmt::format("See: cohort {} --help", app.get_name());
  constexpr std::string_view kConversion = "Could not convert: ";
  if (size_t equals = text.find(" = "); text.starts_with(kConversion) && equals != text.npos) {
    std::string option = text.substr(kConversion.size(), equals - kConversion.size());
    const CLI::Option* found = app.get_option_no_throw(option);
    bool is_flag = found != nullptr && found->get_items_expected_max() == 0;
    throw InvalidInput(
        fmt::format("{} '{}' is not {}", option, text.substr(equals + 3),
                    is_flag ? "yes or no" : "a number, or too large a one"),
        {.advice = is_flag ? fmt::format("Write {} alone, or leave it out.", option) : see});
  }
  if (size_t colon = text.find(": 1 required "); colon != text.npos)
    throw InvalidInput(fmt::format("{} needs a value", text.substr(0, colon)), {.advice = see});
  throw InvalidInput(text, {.advice = see});
}

// CLI11 writes a usage line of its own making.
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return usage_; }

 private:
  std::string usage_;
};

std::string without_double_blank_lines(std::string text) {
  for (size_t at; (at = text.find("\n\n\n")) != text.npos;) text.erase(at, 1);
  return text;
}

}  // namespace

DeclaredCommand::DeclaredCommand(const Command& command)
    : app(std::make_unique<CLI::App>("", command.name)) {
  app->formatter(std::make_shared<UsageFormatter>(
      fmt::format("Usage: cohort {} {}\n", command.name, command.usage)));
  app->set_help_flag("-h,--help", "This text");
  action = command.declare(*app);
}

DeclaredCommand::~DeclaredCommand() = default;

std::vector<std::string> long_option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back(name);
  return names;
}

bool parse_words(CLI::App& app, Words words) {
  app.allow_extras();
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::cout << without_double_blank_lines(app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw_bad_value(app, error);
  }
  if (auto extras = app.remaining(); !extras.empty()) throw_unexpected(app, extras.front());
  return true;
}

}  // namespace cohort::tools
