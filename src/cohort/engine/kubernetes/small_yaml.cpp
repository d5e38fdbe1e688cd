#include "cohort/engine/kubernetes/small_yaml.h"

#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::engine::kubernetes {
namespace {

using nlohmann::json;

constexpr int kDeepest = 32;

struct YamlLine {
  int number;
  std::size_t indent;
  std::string text;  // without indent, comment and trailing blanks; not empty
};

// Block collections by their indentation. Confined to one call.
class YamlReader {
 public:
  YamlReader(std::string_view text, const std::string& source) : source_(source) {
    int number = 0;
    for (const std::string& line : split(text, '\n')) {
      ++number;
      const std::size_t indent = line.find_first_not_of(' ');
      if (indent == std::string::npos) continue;
      std::string rest(trim(without_comment(line.substr(indent))));
      if (rest.empty() || rest == "---") continue;
      if (rest.front() == '\t') refuse(number, "is indented by a tab");
      lines_.push_back({number, indent, rest});
    }
  }

  json read() {
    if (lines_.empty()) return json::object();
    json value = block(lines_.front().indent, 0);
    if (next_ < lines_.size()) refuse(lines_[next_].number, "is indented unlike the lines before");
    return value;
  }

 private:
  [[noreturn]] void refuse(int line, const std::string& why) const {
    throw InvalidInput(fmt::format("{} line {} {}", source_, line, why),
                       {.advice = "Write it as kubectl does: kubectl config view --raw > FILE"});
  }

  static std::string without_comment(const std::string& text) {
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quote != 0)
        quote = c == quote ? 0 : quote;
      else if ((c == '"' || c == '\'') && (i == 0 || text[i - 1] == ' '))
        quote = c;
      else if (c == '#' && (i == 0 || text[i - 1] == ' '))
        return text.substr(0, i);
    }
    return text;
  }

  bool more(std::size_t indent) const {
    return next_ < lines_.size() && lines_[next_].indent == indent;
  }
  static bool is_item(const std::string& text) { return text == "-" || text.starts_with("- "); }

  json block(std::size_t indent, int depth) {
    if (depth > kDeepest) refuse(lines_[next_].number, "is nested too deeply");
    return is_item(lines_[next_].text) ? list(indent, depth) : map(indent, depth);
  }

  json list(std::size_t indent, int depth) {
    json result = json::array();
    while (more(indent) && is_item(lines_[next_].text)) {
      YamlLine& line = lines_[next_];
      const std::size_t begin = line.text.find_first_not_of(' ', 1);
      if (begin == std::string::npos) {
        const int number = line.number;
        if (++next_ >= lines_.size() || lines_[next_].indent <= indent) refuse(number, "is empty");
        result.push_back(block(lines_[next_].indent, depth + 1));
      } else if (key_end(line.text.substr(begin)) == std::string::npos) {
        result.push_back(scalar(line.text.substr(begin), line.number));
        ++next_;
      } else {  // a map that begins behind the dash
        line.indent += begin;
        line.text.erase(0, begin);
        result.push_back(map(line.indent, depth + 1));
      }
    }
    return result;
  }

  static std::size_t key_end(const std::string& text) {
    if (text.front() == '"' || text.front() == '\'') return std::string::npos;
    for (std::size_t i = text.find(':'); i != std::string::npos; i = text.find(':', i + 1))
      if (i + 1 == text.size() || text[i + 1] == ' ') return i;
    return std::string::npos;
  }

  json map(std::size_t indent, int depth) {
    json result = json::object();
    while (more(indent) && !is_item(lines_[next_].text)) {
      const YamlLine& line = lines_[next_++];
      const std::size_t end = key_end(line.text);
      if (end == std::string::npos) refuse(line.number, "has no key");
      const std::string key(trim(line.text.substr(0, end)));
      const std::string value(trim(line.text.substr(end + 1)));
      if (!value.empty()) {
        result[key] = scalar(value, line.number);
      } else if (next_ < lines_.size() &&
                 (lines_[next_].indent > indent ||
                  (lines_[next_].indent == indent && is_item(lines_[next_].text)))) {
        result[key] = block(lines_[next_].indent, depth + 1);
      } else {
        result[key] = nullptr;
      }
    }
    return result;
  }

  json scalar(const std::string& text, int number) const {
    if (text == "{}") return json::object();
    if (text == "[]") return json::array();
    if (text == "true" || text == "false") return text == "true";
    if (text == "null" || text == "~") return nullptr;
    if (text.front() == '"') {
      json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!value.is_string()) refuse(number, "holds a text that does not end");
      return value;
    }
    if (text.front() == '\'') {
      if (text.size() < 2 || text.back() != '\'') refuse(number, "holds a text that does not end");
      std::string result = text.substr(1, text.size() - 2);
      for (std::size_t i = result.find("''"); i != std::string::npos; i = result.find("''", i + 1))
        result.erase(i, 1);
      return result;
    }
    if (std::string_view("{[&*!|>%@`").find(text.front()) != std::string_view::npos)
      refuse(number, "holds YAML that this version does not read");
    return text;
  }

  std::string source_;
  std::vector<YamlLine> lines_;
  std::size_t next_ = 0;
};

}  // namespace

json read_small_yaml(std::string_view text, const std::string& source) {
  if (trim(text).starts_with("{")) {
    json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_object()) return value;
    throw InvalidInput(fmt::format("{} holds no valid JSON", source));
  }
  return YamlReader(text, source).read();
}

}  // namespace cohort::engine::kubernetes
