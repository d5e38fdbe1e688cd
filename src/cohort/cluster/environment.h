#pragma once

#include <map>
#include <optional>
#include <string>

namespace cohort::cluster {

// Environment variables by name. Every dialect reads from one and writes into one, so that tests
// need not touch the process's own.
class Environment : public std::map<std::string, std::string, std::less<>> {
 public:
  using std::map<std::string, std::string, std::less<>>::map;

  static Environment of_this_process();

  // Nothing when unset; "" when set to the empty text.
  std::optional<std::string> find_value(std::string_view name) const;
};

}  // namespace cohort::cluster
