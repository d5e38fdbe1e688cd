#include "cohort/jobspec/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/field_forms.h"
#include "cohort/jobspec/mpirun_options.h"

namespace cohort::jobspec {
namespace {

using Json = nlohmann::ordered_json;

std::string as_word(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

bool is_variable_name(std::string_view name) {
  const auto is_part = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), is_part);
}

}  // namespace

Words hyperparameter_words(const NamedJson& hyperparameters) {
  Words words;
  for (const auto& [name, text] : hyperparameters) {
    const Json value = Json::parse(text);
    if (!is_option_name(name))
      throw InvalidInput(fmt::format("hyperparameter '{}' has a name that no option can have",
                                     escape_controls(name)),
                         {.advice = "Use letters, digits, '_', '-' and '.'."});
    if (value.is_null())
      throw InvalidInput(fmt::format("hyperparameter '{}' is null", name),
                         {.advice = "Give it a value, or leave it out."});
    words.push_back("--" + name);
    words.push_back(as_word(value));
  }
  return words;
}

Words run_option_words(const NamedJson& run_options) {
  Words words;
  for (const auto& [name, text] : run_options) {
    const Json value = Json::parse(text);
    const std::string flag = "--" + name;
    const auto add = [&](const std::string& word) {
      words.push_back(flag);
      words.push_back(word);
    };
    if (value.is_boolean()) {
      words.push_back(value.get<bool>() ? flag : flag + "=false");
    } else if (value.is_array()) {
      for (const Json& element : value) add(as_word(element));
    } else if (value.is_object()) {
      for (const auto& [key, below] : value.items()) add(fmt::format("{}={}", key, as_word(below)));
    } else {
      add(as_word(value));
    }
  }
  return words;
}

Words split_words(std::string_view text) {
  Words words;
  std::string word;
  bool in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
      continue;
    }
    in_word = true;
    if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
    } else if (c == '\'' || c == '"') {
      std::size_t end = i + 1;
      for (; end < text.size() && text[end] != c; ++end) {
        const bool escapes = c == '"' && text[end] == '\\' && end + 1 < text.size() &&
                             (text[end + 1] == '"' || text[end + 1] == '\\');
        if (escapes) ++end;
        word += text[end];
      }
      if (end == text.size())
        throw InvalidInput(fmt::format("'{}' has a quote without an end", escape_controls(text)));
      i = end;
    } else {
      word += c;
    }
  }
  if (in_word) words.push_back(word);
  return words;
}

std::string shell_text(const Words& words) {
  Words quoted;
  for (const std::string& word : words) quoted.push_back(shell_quote(word));
  return join(quoted, " ");
}

MpiWords mpi_option_words(std::string_view custom_options) {
  MpiWords result;
  const Words words = split_words(custom_options);
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    throw InvalidInput(
        fmt::format("custom_mpi_options '{}': {}", escape_controls(custom_options), what),
        {.advice = advice});
  };
  const auto add_variable = [&](const std::string& option, const std::string& name,
                                const std::string& value) {
    result.words.insert(result.words.end(), {"-x", name + "=" + value});
    result.notes.push_back(fmt::format(
        "mpirun has no option {}: it is exported to every process as the variable {}={}", option,
        name, value));
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') || word.find_first_not_of('-') == std::string::npos)
      refuse(fmt::format("'{}' is neither an option of mpirun nor the value of one", word),
             "Write options as in '--bind-to none --NCCL_DEBUG INFO'.");
    const std::string name = word.substr(word.starts_with("--") ? 2 : 1);
    if (const auto values = mpirun_option_values(name)) {
      if (i + *values >= words.size())
        refuse(fmt::format("{} needs {} value{}", word, *values, *values == 1 ? "" : "s"), "");
      for (const std::size_t end = i + *values; i < end; ++i) result.words.push_back(words[i]);
      result.words.push_back(words[i]);
      continue;
    }
    const auto equals = name.find('=');
    const bool is_long = word.starts_with("--");
    if (is_long && equals != name.npos && is_variable_name(name.substr(0, equals)) &&
        !mpirun_option_values(name.substr(0, equals))) {
      add_variable(word.substr(0, 2 + equals), name.substr(0, equals), name.substr(equals + 1));
    } else if (is_long && is_variable_name(name) && i + 1 < words.size() &&
               !words[i + 1].starts_with('-')) {
      add_variable(word, name, words[i + 1]);
      ++i;
    } else {
      result.words.push_back(word);  // another MPI's, perhaps: mpirun says what it makes of it
    }
  }
  return result;
}

}  // namespace cohort::jobspec
