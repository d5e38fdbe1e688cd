#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::jobspec {

// What .cohortignore says, as .gitignore does: a pattern a line, '#' begins a comment, '!' takes a
// path back in, a '/' at the end means folders only, one before that binds the pattern to the top
// folder; '*' and '?' stop at '/', '**' does not, [a-z] is a class. The last rule that fits decides.
// A value.
class IgnoreRules {
 public:
  explicit IgnoreRules(std::string_view text);

  // `path` is relative to the top folder. What lies in an ignored folder is ignored with it.
  bool ignores(std::string_view path, bool is_folder) const;

 private:
  struct Rule {
    std::string pattern;  // without '!' and slashes at the ends
    bool takes_in = false;
    bool folders_only = false;
    bool from_top = false;
  };
  std::vector<Rule> rules_;
};

// Whether the whole of `path` fits the pattern.
bool fits_pattern(std::string_view pattern, std::string_view path);

}  // namespace cohort::jobspec
