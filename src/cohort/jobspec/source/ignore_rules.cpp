#include "cohort/jobspec/source/ignore_rules.h"

#include "cohort/base/text.h"

namespace cohort::jobspec {
namespace {

// Whether `letter` is in the class that begins behind '[' at `pattern`; takes the class away. False
// with the pattern as it was: there is no ']'.
bool take_class(std::string_view& pattern, char letter, bool& fits) {
  std::string_view rest = pattern;
  const bool negated = rest.starts_with('!') || rest.starts_with('^');
  if (negated) rest.remove_prefix(1);
  bool found = false;
  for (bool first = true; first || !rest.starts_with(']'); first = false) {
    if (rest.empty()) return false;
    const char low = rest.front();
    rest.remove_prefix(1);
    char high = low;
    if (rest.size() >= 2 && rest[0] == '-' && rest[1] != ']') {
      high = rest[1];
      rest.remove_prefix(2);
    }
    found = found || (low <= letter && letter <= high);
  }
  rest.remove_prefix(1);
  pattern = rest;
  fits = found != negated && letter != '/';
  return true;
}

bool fits_stars(std::string_view pattern, std::string_view path) {
  const bool crosses = pattern.starts_with("**");
  while (pattern.starts_with('*')) pattern.remove_prefix(1);
  if (crosses && pattern.starts_with('/') && fits_pattern(pattern.substr(1), path))
    return true;  // "**/" stands for no folder, too
  while (true) {
    if (fits_pattern(pattern, path)) return true;
    if (path.empty() || (!crosses && path.front() == '/')) return false;
    path.remove_prefix(1);
  }
}

}  // namespace

bool fits_pattern(std::string_view pattern, std::string_view path) {
  while (!pattern.empty()) {
    if (pattern.front() == '*') return fits_stars(pattern, path);
    if (path.empty()) return false;
    char wanted = pattern.front();
    pattern.remove_prefix(1);
    bool fits = false;
    if (wanted == '[' && take_class(pattern, path.front(), fits)) {
      if (!fits) return false;
    } else if (wanted == '?') {
      if (path.front() == '/') return false;
    } else {
      if (wanted == '\\' && !pattern.empty()) {
        wanted = pattern.front();
        pattern.remove_prefix(1);
      }
      if (wanted != path.front()) return false;
    }
    path.remove_prefix(1);
  }
  return path.empty();
}

IgnoreRules::IgnoreRules(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    std::string_view pattern = line;
    while (!pattern.empty() && (pattern.back() == ' ' || pattern.back() == '\r'))
      pattern.remove_suffix(1);
    if (pattern.empty() || pattern.front() == '#') continue;
    Rule rule;
    if (pattern.front() == '!') {
      rule.takes_in = true;
      pattern.remove_prefix(1);
    }
    if (pattern.ends_with('/')) {
      rule.folders_only = true;
      pattern.remove_suffix(1);
    }
    rule.from_top = pattern.find('/') != std::string_view::npos;
    if (pattern.starts_with('/')) pattern.remove_prefix(1);
    if (pattern.empty()) continue;
    rule.pattern = pattern;
    rules_.push_back(std::move(rule));
  }
}

bool IgnoreRules::ignores(std::string_view path, bool is_folder) const {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->folders_only && !is_folder) continue;
    if (fits_pattern(rule->pattern, rule->from_top ? path : name)) return !rule->takes_in;
  }
  return false;
}

}  // namespace cohort::jobspec
