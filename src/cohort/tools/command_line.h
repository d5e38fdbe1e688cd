#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort::tools {

// The long names of the options of `app`, without dashes.
std::vector<std::string> long_option_names(const CLI::App& app);

// Parses `words` into what `app` was declared with. True when that was all; false when help was
// asked for and has been printed. Throws InvalidInput whose advice names the nearest option.
bool parse_words(CLI::App& app, std::vector<std::string> words);

}  // namespace cohort::tools
