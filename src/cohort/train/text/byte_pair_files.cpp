#include "cohort/train/text/byte_pair_files.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::train {
namespace {

using nlohmann::json;

constexpr std::string_view kEndOfText = "<|endoftext|>";

[[noreturn]] void refuse_vocabulary(const std::string& name, const std::string& reason) {
  throw InvalidInput(
      fmt::format("'{}' is not a usable byte-pair vocabulary: {}", name, escape_controls(reason)),
      {.advice = "Give GPT-2's vocab.json and merges.txt, or a tokenizer.json with a model BPE and "
                 "ByteLevel(add_prefix_space=False)."});
}

json parse_vocabulary_json(std::string_view text, const std::string& name) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) refuse_vocabulary(name, "it is not a JSON object");
  return value;
}

// GPT-2 writes every byte as a letter: printable ones as themselves, the others as 256 + n.
class ByteLetters {
 public:
  ByteLetters() {
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      bytes_.emplace(printable ? static_cast<char32_t>(byte) : next++, static_cast<char>(byte));
    }
  }

  // The bytes that such letters stand for; nothing for other letters.
  std::optional<std::string> bytes_of(std::string_view letters) const {
    std::string bytes;
    while (!letters.empty()) {  // JSON has checked that it is UTF-8; merges.txt may be anything
      const auto lead = static_cast<unsigned char>(letters[0]);
      char32_t code = lead;
      std::size_t size = 1;
      if (lead >= 0xc2 && lead <= 0xc5 && letters.size() > 1) {
        code = (lead & 0x1fu) << 6 | (static_cast<unsigned char>(letters[1]) & 0x3fu);
        size = 2;
      }
      const auto found = bytes_.find(code);
      if (found == bytes_.end() || (size == 1 && lead >= 0x80)) return std::nullopt;
      bytes.push_back(found->second);
      letters.remove_prefix(size);
    }
    return bytes;
  }

 private:
  std::map<char32_t, char> bytes_;
};

// Fills a BytePairs part by part, in the order: tokens, added tokens, merges.
class VocabularyBuilder {
 public:
  explicit VocabularyBuilder(const std::string& name) : name_(name) {
    pairs_.bytes.fill(BytePairs::kNone);
  }

  void add_tokens(const json& vocab) {
    if (!vocab.is_object()) refuse_vocabulary(name_, "its vocab is not an object");
    for (const auto& [letters, number] : vocab.items()) {
      const std::uint32_t token = number_of(number, letters);
      const auto bytes = letters_.bytes_of(letters);
      if (letters.empty()) refuse_vocabulary(name_, "it has a token without text");
      // Only added tokens may be written in other letters.
      put(token, bytes.value_or(letters), letters);
      numbers_.emplace(letters, token);
      if (bytes && bytes->size() == 1)
        pairs_.bytes[static_cast<unsigned char>(bytes->front())] = token;
    }
  }

  void add_added(const std::string& text, const json& number) {
    if (text.empty()) refuse_vocabulary(name_, "it has an added token without text");
    const std::uint32_t token = number_of(number, text);
    if (token >= pairs_.tokens.size()) pairs_.tokens.resize(token + 1);
    const auto known = numbers_.find(text);
    if (!pairs_.tokens[token].empty() && (known == numbers_.end() || known->second != token))
      refuse_vocabulary(name_,
                        fmt::format("'{}' and another token have the number {}", text, token));
    pairs_.tokens[token] = text;
    pairs_.added.emplace(text, token);
  }

  void add_end_of_text() {
    const auto found = numbers_.find(std::string(kEndOfText));
    if (found != numbers_.end()) pairs_.added.emplace(kEndOfText, found->second);
  }

  void add_merge(std::string_view left, std::string_view right) {
    const std::uint32_t first = token_of(left), second = token_of(right);
    const std::uint32_t both = token_of(std::string(left) + std::string(right));
    pairs_.merges.insert_or_assign(BytePairs::pair(first, second),
                                   BytePairs::Merge{.rank = merges_++, .token = both});
  }

  BytePairs finish() {
    for (std::size_t byte = 0; byte < 256; ++byte)
      if (pairs_.bytes[byte] == BytePairs::kNone ||
          pairs_.tokens[pairs_.bytes[byte]] != std::string(1, static_cast<char>(byte)))
        refuse_vocabulary(name_, fmt::format("it has no token for the byte {:#04x}; train it with "
                                             "initial_alphabet=ByteLevel.alphabet()",
                                             byte));
    return std::move(pairs_);
  }

  const std::string& name() const { return name_; }

 private:
  std::uint32_t number_of(const json& number, const std::string& text) const {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= kMostTokens)
      refuse_vocabulary(name_,
                        fmt::format("token '{}' has the number {}, expected 0 to {}", text,
                                    number.dump(-1, ' ', false, json::error_handler_t::replace),
                                    kMostTokens - 1));
    return number.get<std::uint32_t>();
  }

  void put(std::uint32_t token, std::string bytes, const std::string& letters) {
    if (token >= pairs_.tokens.size()) pairs_.tokens.resize(token + 1);
    std::string& place = pairs_.tokens[token];
    if (!place.empty())
      refuse_vocabulary(name_,
                        fmt::format("'{}' and another token have the number {}", letters, token));
    place = std::move(bytes);
  }

  std::uint32_t token_of(std::string_view letters) const {
    const auto found = numbers_.find(std::string(letters));
    if (found == numbers_.end())
      refuse_vocabulary(
          name_, fmt::format("merge {} needs '{}', which is no token", merges_ + 1, letters));
    return found->second;
  }

  std::string name_;
  ByteLetters letters_;
  BytePairs pairs_;
  std::uint32_t merges_ = 0;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

void add_merge_line(VocabularyBuilder& builder, std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos)
    refuse_vocabulary(builder.name(), fmt::format("the merge '{}' is not two tokens", line));
  builder.add_merge(line.substr(0, space), line.substr(space + 1));
}

// Refuses settings that would give other tokens than are made here.
void expect_plain(const VocabularyBuilder& builder, const json& object, const char* key,
                  const std::vector<json>& allowed) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return;
  for (const json& value : allowed)
    if (*found == value) return;
  refuse_vocabulary(
      builder.name(),
      fmt::format("its {} is {}, which is not known here", key,
                  found->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 100)));
}

void expect_gpt2_words(const VocabularyBuilder& builder, const json& value) {
  expect_plain(builder, value, "normalizer", {});
  const auto found = value.find("pre_tokenizer");
  if (found == value.end() || !found->is_object())
    refuse_vocabulary(builder.name(), "it has no pre_tokenizer");
  expect_plain(builder, *found, "type", {"ByteLevel"});
  if (found->value("type", json()) != "ByteLevel" ||
      found->value("add_prefix_space", json(true)) != false)
    refuse_vocabulary(builder.name(), "its pre_tokenizer is not ByteLevel(add_prefix_space=False)");
  expect_plain(builder, *found, "use_regex", {true});
}

void add_added_tokens(VocabularyBuilder& builder, const json& value) {
  const auto added = value.find("added_tokens");
  if (added == value.end() || added->is_null()) return;
  if (!added->is_array()) refuse_vocabulary(builder.name(), "its added_tokens are no list");
  for (const json& token : *added) {
    if (!token.is_object() || !token.contains("id") || !token.contains("content") ||
        !token["content"].is_string())
      refuse_vocabulary(builder.name(), "an added token has no id or no content");
    for (const char* flag : {"lstrip", "rstrip", "single_word"})
      expect_plain(builder, token, flag, {false});
    builder.add_added(token["content"].get<std::string>(), token["id"]);
  }
}

}  // namespace

BytePairs parse_gpt2_files(std::string_view vocab, std::string_view merges,
                           const std::string& name) {
  VocabularyBuilder builder(name);
  builder.add_tokens(parse_vocabulary_json(vocab, name));
  builder.add_end_of_text();
  bool is_first = true;
  for (std::string_view rest = merges; !rest.empty(); is_first = false) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (is_first && line.starts_with("#version"))) continue;
    add_merge_line(builder, line);
  }
  return builder.finish();
}

BytePairs parse_tokenizer_json(std::string_view text, const std::string& name) {
  VocabularyBuilder builder(name);
  const json value = parse_vocabulary_json(text, name);
  const auto model = value.find("model");
  if (model == value.end() || !model->is_object() || model->value("type", json("BPE")) != "BPE")
    refuse_vocabulary(name, "it has no model BPE");
  expect_gpt2_words(builder, value);
  expect_plain(builder, *model, "continuing_subword_prefix", {""});
  expect_plain(builder, *model, "end_of_word_suffix", {""});
  for (const char* flag : {"byte_fallback", "ignore_merges"})
    expect_plain(builder, *model, flag, {false});
  expect_plain(builder, *model, "dropout", {0, 0.0});
  if (!model->contains("vocab") || !model->contains("merges") || !(*model)["merges"].is_array())
    refuse_vocabulary(name, "its model has no vocab or no list of merges");
  builder.add_tokens((*model)["vocab"]);
  add_added_tokens(builder, value);
  for (const json& merge : (*model)["merges"]) {
    if (merge.is_string())
      add_merge_line(builder, merge.get_ref<const std::string&>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      builder.add_merge(merge[0].get_ref<const std::string&>(),
                        merge[1].get_ref<const std::string&>());
    else
      refuse_vocabulary(name, "one of its merges is not two tokens");
  }
  return builder.finish();
}

}  // namespace cohort::train
