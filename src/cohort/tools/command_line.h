#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

using Words = std::vector<std::string>;

// Carries a command out once its options have been parsed from `words`; `program` is what stood
// behind `--`. Returns the exit code. Throws InvalidInput.
using Action = std::function<int(const Words& words, const Words& program)>;

// One command of `cohort`: all that dispatch, help and completion know of it.
struct Command {
  std::string name;
  std::string summary;  // in `cohort --help`; "": not for people
  std::string usage;    // what follows `cohort NAME`
  // Declares description, options and examples on `app`, which must outlive the action.
  std::function<Action(CLI::App& app)> declare;
};

// A command that is ready to parse its words.
struct DeclaredCommand {
  explicit DeclaredCommand(const Command& command);
  ~DeclaredCommand();

  std::unique_ptr<CLI::App> app;
  Action action;
};

// The long names of the options of `app`, without dashes.
std::vector<std::string> long_option_names(const CLI::App& app);

// Parses `words` into what `app` was declared with. True when that was all; false when help was
// asked for and has been printed. Throws InvalidInput whose advice names the nearest option.
bool parse_words(CLI::App& app, Words words);

}  // namespace cohort::tools
