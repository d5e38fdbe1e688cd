#include "cohort/cluster/dialects/slurm_nodes.h"

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::cluster {
namespace {

constexpr std::size_t kMost = 100'000;

[[noreturn]] void refuse_nodes(std::string_view text, std::string_view why) {
  throw InvalidInput(fmt::format("the Slurm node list '{}' {}", text, why),
                     {.advice = "Write it as Slurm does: node[01-03,7],b2."});
}

[[noreturn]] void refuse_counts(std::string_view text) {
  throw InvalidInput(fmt::format("'{}' is no Slurm list of tasks per node", text),
                     {.advice = "Write it as Slurm does: 2(x3),1."});
}

// The parts between the commas that no bracket encloses.
std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) refuse_nodes(text, "has brackets that do not match");
      inside = !inside;
    }
  }
  if (inside) refuse_nodes(text, "has brackets that do not match");
  return parts;
}

// "01-03,7" -> 01 02 03 7. The lower end's width is kept, as Slurm keeps it.
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view text) {
  std::vector<std::string> numbers;
  for (const std::string& range : split(ranges, ',')) {
    std::size_t dash = range.find('-');
    std::string low_text = range.substr(0, dash);
    auto low = parse_unsigned(low_text);
    auto high = dash == std::string::npos ? low : parse_unsigned(range.substr(dash + 1));
    if (!low || !high || *high < *low)
      refuse_nodes(text, fmt::format("has the range '{}', which counts nothing", range));
    if (*high - *low >= kMost || numbers.size() >= kMost)
      refuse_nodes(text, fmt::format("has the range '{}', which is too long", range));
    for (auto number = *low;; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, low_text.size()));
      if (number == *high) break;
    }
  }
  if (numbers.empty()) refuse_nodes(text, "has an empty bracket");
  return numbers;
}

// One name: each bracket multiplies the names so far.
std::vector<std::string> expand_name(std::string_view name, std::string_view text) {
  std::vector<std::string> results = {""};
  while (!name.empty()) {
    std::size_t open = name.find('[');
    for (std::string& result : results) result += name.substr(0, open);
    if (open == std::string_view::npos) break;
    std::size_t close = name.find(']', open);
    auto numbers = expand_ranges(name.substr(open + 1, close - open - 1), text);
    if (results.size() * numbers.size() > kMost) refuse_nodes(text, "means too many nodes");
    std::vector<std::string> multiplied;
    for (const std::string& result : results)
      for (const std::string& number : numbers) multiplied.push_back(result + number);
    results = std::move(multiplied);
    name.remove_prefix(close + 1);
  }
  return results;
}

}  // namespace

std::vector<std::string> expand_slurm_nodelist(std::string_view text) {
  std::vector<std::string> nodes;
  for (std::string_view name : split_outside_brackets(text)) {
    if (trim(name).empty()) refuse_nodes(text, "has an empty name");
    auto expanded = expand_name(trim(name), text);
    if (nodes.size() + expanded.size() > kMost) refuse_nodes(text, "means too many nodes");
    nodes.insert(nodes.end(), expanded.begin(), expanded.end());
  }
  return nodes;
}

std::vector<int> expand_slurm_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    std::size_t open = part.find("(x");
    auto count = parse_unsigned(part.substr(0, open));
    std::optional<std::uint64_t> times = 1;
    if (open != std::string::npos) {
      if (!part.ends_with(')')) refuse_counts(text);
      times = parse_unsigned(std::string_view(part).substr(open + 2, part.size() - open - 3));
    }
    if (!count || !times || *count > kMost || *times > kMost - counts.size()) refuse_counts(text);
    counts.insert(counts.end(), *times, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace cohort::cluster
