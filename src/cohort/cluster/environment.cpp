#include "cohort/cluster/environment.h"

#include <unistd.h>

#include <string_view>

extern char** environ;

namespace cohort::cluster {

Environment Environment::of_this_process() {
  Environment result;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text(*entry);
    size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::optional<std::string> Environment::find_value(std::string_view name) const {
  auto found = find(name);
  if (found == end()) return std::nullopt;
  return found->second;
}

}  // namespace cohort::cluster
