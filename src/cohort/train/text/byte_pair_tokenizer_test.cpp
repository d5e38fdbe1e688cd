#include "cohort/train/text/byte_pair_tokenizer.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/text/gpt2_words.h"

namespace cohort::train {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// tests/train/tokenizer/make_files.py says how these were made.
const std::filesystem::path kTokenizerFiles = COHORT_SOURCE_DIR "/tests/train/tokenizer";

std::vector<std::string> gpt2_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t length = first_gpt2_word(text);
    words.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

TEST(Gpt2Words, TextIsCutAsTheExpressionSays) {
  EXPECT_THAT(gpt2_words("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(gpt2_words("it's IT'S"), ElementsAre("it", "'s", " IT", "'", "S"));
  EXPECT_THAT(gpt2_words("a  b   c "), ElementsAre("a", " ", " b", "  ", " c", " "));
  EXPECT_THAT(gpt2_words("a\nb\n\nc"), ElementsAre("a", "\n", "b", "\n", "\n", "c"));
  EXPECT_THAT(gpt2_words("x1 22,3!?"), ElementsAre("x", "1", " 22", ",", "3", "!?"));
  EXPECT_THAT(gpt2_words(" 's!'s"), ElementsAre(" '", "s", "!'", "s"));
  EXPECT_THAT(gpt2_words("\xc3\xa9t\xc3\xa9 \xff\xfe."),
              ElementsAre("\xc3\xa9t\xc3\xa9", " \xff\xfe."));
  EXPECT_THAT(gpt2_words("a\xe4\xbd"), ElementsAre("a", "\xe4\xbd"));  // cut off
  EXPECT_THAT(gpt2_words("a\xc2\xa0 \xe2\x80\x83z"),
              ElementsAre("a", "\xc2\xa0 ", "\xe2\x80\x83", "z"));
}

TEST(BytePairTokenizer, GivesTheNumbersOfHuggingFace) {
  const json cases = json::parse(read_file(kTokenizerFiles / "cases.json"));
  ASSERT_GT(cases.size(), 30u);
  const BytePairTokenizer from_json(kTokenizerFiles / "tokenizer.json");
  const BytePairTokenizer from_pair(kTokenizerFiles);  // vocab.json and merges.txt
  for (const BytePairTokenizer* tokenizer : {&from_json, &from_pair})
    for (const json& entry : cases) {
      const auto text = entry["text"].get<std::string>();
      const auto tokens = tokenizer->encode(text);
      EXPECT_EQ(tokens, entry["ids"].get<std::vector<std::int64_t>>()) << text;
      EXPECT_EQ(tokenizer->decode(tokens), text);
    }
  EXPECT_EQ(from_json.vocabulary(), 512);
  EXPECT_EQ(from_json.token("<|endoftext|>"), 0);
  EXPECT_EQ(from_pair.token("<|endoftext|>"), 0);
  EXPECT_EQ(from_json.token("<pad>"), std::nullopt);
}

std::string random_bytes(std::mt19937& random, std::size_t most) {
  std::string bytes;
  for (std::size_t left = random() % (most + 1); left > 0; --left)
    bytes.push_back(static_cast<char>(random()));
  return bytes;
}

TEST(BytePairTokenizer, AnyBytesComeBack) {
  const BytePairTokenizer tokenizer(kTokenizerFiles);
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_bytes(random, 200);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_THAT(message_of<InvalidInput>([&] {
                tokenizer.decode(std::vector<std::int64_t>{1, 512});
              }),
              HasSubstr("token 512 is not of this vocabulary of 512"));
}

TEST(BytePairTokenizer, ALongWordTakesNoQuadraticTime) {
  const BytePairTokenizer tokenizer(kTokenizerFiles);
  const std::string word(300'000, 'e');  // quadratic: minutes
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(word)), word);
}

// Texts in which letters, digits, spaces and signs of many scripts meet.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> pieces{"a",      "b",
                                               "the",    " ",
                                               "  ",     "\n",
                                               "\t",     "'s",
                                               "'",      "'ll",
                                               "1",      "23",
                                               "\u00bd", "!",
                                               "?!",     "\u00e9",
                                               "\u4f60", "\u00a0",
                                               "\u2003", "\U0001f642",
                                               "\u0301", "<|endoftext|>",
                                               "<|",     "worker",
                                               " job",   ".",
                                               ",",      "\u0660",
                                               "\u1c89", "\u180e",
                                               "\u200b", "\u2028",
                                               "\x1c"};
  std::string text;
  for (int i = static_cast<int>(random() % 30); i > 0; --i)
    text += pieces[random() % pieces.size()];
  return text;
}

TEST(BytePairTokenizer, RandomTextsAreAsHuggingFaceCutsThem) {
  std::string python;
  for (const std::string candidate : {COHORT_SOURCE_DIR "/.venv/bin/python3", "python3"})
    if (python.empty() &&
        std::system((candidate + " -c 'import tokenizers' 2>/dev/null").c_str()) == 0)
      python = candidate;
  if (python.empty()) GTEST_SKIP() << "no python3 that imports tokenizers";
  ScratchFolder folder;
  std::mt19937 random(7);
  json texts = json::array();
  for (int i = 0; i < 3000; ++i) texts.push_back(random_text(random));
  std::ofstream(folder / "texts.json") << texts;
  ASSERT_EQ(std::system((python + " " + (kTokenizerFiles / "make_files.py").string() +
                         " --encode " + kTokenizerFiles.string() + " " +
                         (folder / "texts.json").string() + " > " + (folder / "out.json").string())
                            .c_str()),
            0);
  const json expected = json::parse(read_file(folder / "out.json"));
  const BytePairTokenizer tokenizer(kTokenizerFiles);
  for (std::size_t i = 0; i < texts.size(); ++i)
    ASSERT_EQ(tokenizer.encode(texts[i].get<std::string>()),
              expected[i].get<std::vector<std::int64_t>>())
        << texts[i];
}

json small_tokenizer() { return json::parse(read_file(kTokenizerFiles / "tokenizer.json")); }

TEST(BytePairTokenizer, WhatIsNotKnownHereIsNamed) {
  const auto complaint = [](const std::function<void(json&)>& change) {
    json value = small_tokenizer();
    change(value);
    return message_of<InvalidInput>([&] { parse_tokenizer_json(value.dump(), "t.json"); });
  };
  EXPECT_THAT(complaint([](json& v) { v["model"]["type"] = "WordPiece"; }),
              HasSubstr("has no model BPE"));
  EXPECT_THAT(complaint([](json& v) { v["pre_tokenizer"]["add_prefix_space"] = true; }),
              HasSubstr("not ByteLevel(add_prefix_space=False)"));
  EXPECT_THAT(complaint([](json& v) { v["pre_tokenizer"]["type"] = "Whitespace"; }),
              HasSubstr("its type is \"Whitespace\""));
  EXPECT_THAT(complaint([](json& v) {
                v["normalizer"] = {{"type", "NFC"}};
              }),
              HasSubstr("its normalizer is"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["byte_fallback"] = true; }),
              HasSubstr("its byte_fallback is true"));
  EXPECT_THAT(complaint([](json& v) { v["added_tokens"][0]["lstrip"] = true; }),
              HasSubstr("its lstrip is true"));
  EXPECT_THAT(complaint([](json& v) { v["added_tokens"][0]["id"] = 5; }),
              HasSubstr("another token have the number 5"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["merges"].push_back("q z"); }),
              HasSubstr("needs 'qz', which is no token"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["merges"].push_back("qz"); }),
              HasSubstr("the merge 'qz' is not two tokens"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["vocab"]["new"] = 3; }),
              HasSubstr("another token have the number 3"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["vocab"]["new"] = 1e9; }),
              HasSubstr("token 'new' has the number 1000000000.0, expected 0 to 3999999"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["vocab"]["new"] = -1; }), HasSubstr("number -1"));
  EXPECT_THAT(complaint([](json& v) { v["model"]["vocab"].erase("!"); }),
              AnyOf(HasSubstr("no token for the byte 0x21"), HasSubstr("which is no token")));
  EXPECT_THAT(message_of<InvalidInput>([] { parse_tokenizer_json("{", "t.json"); }),
              HasSubstr("it is not a JSON object"));
  ScratchFolder empty;
  EXPECT_THAT(message_of<InvalidInput>([&] { BytePairTokenizer tokenizer(empty.path()); }),
              HasSubstr("has no vocab.json with a merges.txt"));
}

TEST(BytePairTokenizer, DamagedFilesAreRefusedOrUsed) {
  const std::string vocab = read_file(kTokenizerFiles / "vocab.json");
  const std::string merges = read_file(kTokenizerFiles / "merges.txt");
  const std::string whole = read_file(kTokenizerFiles / "tokenizer.json");
  std::mt19937 random(11);
  const auto damage = [&](std::string text) {
    if (random() % 4 == 0) return text.substr(0, random() % text.size());
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    return text;
  };
  int refused = 0;
  for (int i = 0; i < 150; ++i) {
    try {
      const BytePairTokenizer tokenizer(i % 3 == 0 ? parse_tokenizer_json(damage(whole), "t")
                                        : i % 3 == 1
                                            ? parse_gpt2_files(damage(vocab), merges, "t")
                                            : parse_gpt2_files(vocab, damage(merges), "t"));
      tokenizer.encode("Hello the workers");
    } catch (const InvalidInput&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace cohort::train
