#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

// toml++ asserts things that broken text makes false ("[=]"), and lets the compiler count on them
// where NDEBUG is defined. Here such text ends in an exception, in every build. No other file
// includes toml++, and this one is compiled alone.
namespace cohort::jobspec {
namespace {
struct BrokenToml : std::runtime_error {
  BrokenToml() : std::runtime_error("broken TOML") {}
};
[[noreturn]] void throw_broken_toml() { throw BrokenToml(); }
}  // namespace
}  // namespace cohort::jobspec
#undef NDEBUG
#define TOML_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::cohort::jobspec::throw_broken_toml())
#include <toml++/toml.h>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/document.h"
#include "cohort/jobspec/toml_limits.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

// Turns TOML's values into JSON's, and notes the line of each.
class Converter {
 public:
  explicit Converter(Source& source) : source_(source) {}

  Json convert(const toml::table& table, const std::string& path) {
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (auto&& [key, node] : table) entries.emplace_back(&key, &node);
    // toml++ sorts by name; a description keeps the order in which it was written.
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      const auto& left = a.first->source().begin;
      const auto& right = b.first->source().begin;
      return std::pair(left.line, left.column) < std::pair(right.line, right.column);
    });
    Json object = Json::object();
    for (const auto& [key, node] : entries) {
      const std::string name(key->str());
      const std::string below = path.empty() ? name : path + "." + name;
      source_.lines[below] = static_cast<int>(key->source().begin.line);
      require_no_zero_byte(name, below);
      object[name] = convert(*node, below);
    }
    return object;
  }

 private:
  Json convert(const toml::node& node, const std::string& path) {
    if (const auto* table = node.as_table()) return convert(*table, path);
    if (const auto* array = node.as_array()) {
      Json list = Json::array();
      for (const toml::node& element : *array) {
        const std::string below = fmt::format("{}[{}]", path, list.size());
        source_.lines[below] = static_cast<int>(element.source().begin.line);
        list.push_back(convert(element, below));
      }
      return list;
    }
    if (const auto text = node.value_exact<std::string>()) {
      require_no_zero_byte(*text, path);
      return *text;
    }
    if (const auto number = node.value_exact<std::int64_t>()) return *number;
    if (const auto yes = node.value_exact<bool>()) return *yes;
    if (const auto number = node.value_exact<double>()) {
      if (std::isfinite(*number)) return *number;
      throw InvalidInput(fmt::format("{}{} is {}, which is no finite number", source_.before(path),
                                     path, *number));
    }
    std::ostringstream date;
    node.visit([&date](const auto& value) {
      if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                    toml::is_date_time<decltype(value)>)
        date << value.get();
    });
    return date.str();
  }

  void require_no_zero_byte(const std::string& text, const std::string& path) const {
    if (const auto at = text.find('\0'); at != std::string::npos)
      throw InvalidInput(
          fmt::format("{}{} has a zero byte behind '{}'", source_.before(path),
                      escape_controls(path), escape_controls(std::string_view(text).substr(0, at))),
          {.advice = "Leave the zero byte out."});
  }

  Source& source_;
};

}  // namespace

Json parse_toml_document(std::string_view text, Source& source) {
  if (text.size() > kMostDocumentBytes)
    throw InvalidInput(fmt::format("job file '{}' has more than {} bytes, the most allowed",
                                   source.name, kMostDocumentBytes));
  require_shallow_toml(text, source.name);
  try {
    return Converter(source).convert(toml::parse(text, source.name), "");
  } catch (const toml::parse_error& error) {
    throw InvalidInput(fmt::format("{} line {} column {}: {}", source.name,
                                   error.source().begin.line, error.source().begin.column,
                                   error.description()));
  } catch (const BrokenToml&) {
    throw InvalidInput(fmt::format("{}: this is no TOML", source.name),
                       {.advice = "Look for a bracket or a key that is out of place."});
  }
}

}  // namespace cohort::jobspec
