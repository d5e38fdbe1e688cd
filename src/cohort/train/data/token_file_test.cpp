#include "cohort/train/data/token_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/npy_header.h"
#include "cohort/train/data/test_folder_test.h"
#include "cohort/train/data/token_windows.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int64_t>;

Tokens all_tokens(const TokenStore& store) {
  Tokens tokens(static_cast<std::size_t>(store.size()));
  store.read(0, tokens);
  return tokens;
}

// As numpy.save() writes it.
Bytes npy_bytes(const std::string& type, const std::string& shape, const Bytes& elements,
                const std::string& order = "False") {
  std::string head =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  head.resize((10 + head.size() + 64) / 64 * 64 - 11, ' ');
  head += '\n';
  Bytes bytes{0x93,
              'N',
              'U',
              'M',
              'P',
              'Y',
              1,
              0,
              static_cast<std::uint8_t>(head.size()),
              static_cast<std::uint8_t>(head.size() >> 8)};
  return bytes + Bytes(head.begin(), head.end()) + elements;
}

class TokenFileTest : public DataTest {};

TEST_F(TokenFileTest, RawTokensAreReadAsTheyWereWritten) {
  const Tokens tokens{0, 1, 65535, 258};
  write_token_file(folder_ / "a.bin", tokens);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "a.bin"), 8u);
  EXPECT_EQ(all_tokens(*open_token_file(folder_ / "a.bin")), tokens);
  write_token_file(folder_ / "b.bin", Tokens{70000, 4294967295}, TokenType::u32);
  EXPECT_THAT(all_tokens(*open_token_file(folder_ / "b.bin", {.type = TokenType::u32})),
              ElementsAre(70000, 4294967295));
  EXPECT_THAT(message_of<InvalidInput>([&] {
                write_token_file(folder_ / "c.bin", Tokens{5, 65536});
              }),
              HasSubstr("token 65536 at position 1 does not fit"));
}

TEST_F(TokenFileTest, ALongReadCrossesTheBuffer) {
  Tokens tokens(30'000);
  std::iota(tokens.begin(), tokens.end(), 0);
  write_token_file(folder_ / "a.bin", tokens);
  const auto store = open_token_file(folder_ / "a.bin");
  EXPECT_EQ(all_tokens(*store), tokens);
  Tokens some(20'000);
  store->read(9'999, some);
  EXPECT_EQ(some.front(), 9'999);
  EXPECT_EQ(some.back(), 29'998);
}

TEST_F(TokenFileTest, AHeaderOfARawFileIsPassedOver) {
  const DataFile file = write("a.bin", Bytes{9, 9, 9, 9, 1, 0, 2, 1});
  EXPECT_THAT(all_tokens(*open_token_file(file.path, {.header_bytes = 4})), ElementsAre(1, 258));
  EXPECT_THROW(open_token_file(file.path, {.header_bytes = 9}), InvalidInput);
}

TEST_F(TokenFileTest, WhatIsNoFileOfTokensIsRefused) {
  const auto complaint = [&](const std::string& name, TokenFileOptions options = {}) {
    return message_of<InvalidInput>([&] { open_token_file(folder_ / name, options); });
  };
  EXPECT_THAT(complaint("none"), HasSubstr("there is no such file"));
  write("empty", {});
  EXPECT_THAT(complaint("empty"), HasSubstr("has no tokens"));
  write("odd", {1, 2, 3});
  EXPECT_THAT(complaint("odd"), HasSubstr("3 bytes of tokens, which is no multiple of 2"));
  std::filesystem::create_directory(folder_ / "dir");
  EXPECT_THAT(complaint("dir"), HasSubstr("is not a regular file"));
}

TEST_F(TokenFileTest, AFileThatBecameShorterIsNamedAndNoSignal) {
  write_token_file(folder_ / "a.bin", Tokens(1000, 7));
  const auto store = open_token_file(folder_ / "a.bin");
  std::filesystem::resize_file(folder_ / "a.bin", 100);
  Tokens some(10);
  store->read(0, some);
  EXPECT_THAT(message_of<InvalidInput>([&] { store->read(45, some); }),
              HasSubstr("ends at byte 100: it has become shorter since it was opened"));
}

TEST_F(TokenFileTest, NumpyFilesSayTheirOwnType) {
  write("u1.npy", npy_bytes("|u1", "(3,)", {1, 2, 255}));
  EXPECT_THAT(all_tokens(*open_token_file(folder_ / "u1.npy")), ElementsAre(1, 2, 255));
  write("i4.npy", npy_bytes("<i4", "(2,)", {1, 0, 1, 0, 255, 255, 255, 255}));
  EXPECT_THAT(all_tokens(*open_token_file(folder_ / "i4.npy")), ElementsAre(65537, -1));
  write("i8.npy", npy_bytes("<i8", "(1,)", {2, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_THAT(all_tokens(*open_token_file(folder_ / "i8.npy")), ElementsAre(258));
}

TEST_F(TokenFileTest, NumpyFilesThatAreNoTokensAreRefused) {
  const auto complaint = [&](const Bytes& bytes) {
    write("a.npy", bytes);
    return message_of<InvalidInput>([&] { open_token_file(folder_ / "a.npy"); });
  };
  const Bytes two{1, 0, 2, 0};
  EXPECT_THAT(complaint({1, 2, 3, 4}), HasSubstr("does not begin as one"));
  EXPECT_THAT(complaint(npy_bytes("<u2", "(3,)", two)), HasSubstr("takes 6 bytes, 4 are there"));
  EXPECT_THAT(complaint(npy_bytes("<u2", "(1, 2)", two)), HasSubstr("2 dimensions of type <u2"));
  EXPECT_THAT(complaint(npy_bytes("<f4", "(1,)", two)), HasSubstr("of type <f4"));
  EXPECT_THAT(complaint(npy_bytes("|O", "(1,)", two)), HasSubstr("elements of type '|O'"));
  EXPECT_THAT(complaint(npy_bytes("<u2", "(2,)", two, "True")), HasSubstr("Fortran's order"));
  EXPECT_THAT(complaint(npy_bytes("<u2", "(-2,)", two)), HasSubstr("'-2' in its shape"));
  EXPECT_THAT(complaint(npy_bytes("<u2", "(9223372036854775807, 4)", two)),
              HasSubstr("more elements than a file can"));
  Bytes cut = npy_bytes("<u2", "(2,)", two);
  cut.resize(40);
  EXPECT_THAT(complaint(cut), HasSubstr("longer than what is there"));
}

TEST_F(TokenFileTest, EveryCutAndEveryFlippedByteOfAHeadIsHandled) {
  const Bytes good = npy_bytes("<u2", "(2,)", {1, 0, 2, 0});
  const auto parse = [](const Bytes& bytes) {
    try {
      parse_npy_header({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, bytes.size(),
                       "a.npy");
    } catch (const InvalidInput&) {
    }
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    parse(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i)));
    for (const int bit : {0x01, 0x10, 0x80}) {
      Bytes bad = good;
      bad[i] = static_cast<std::uint8_t>(bad[i] ^ bit);
      parse(bad);
    }
  }
}

TokenWindows windows(const std::vector<std::int64_t>& sizes, std::int64_t sequence,
                     std::int64_t stride, std::int64_t vocabulary = 0) {
  std::vector<std::shared_ptr<const TokenStore>> rows;
  std::int64_t next = 0;
  for (const std::int64_t size : sizes) {
    Tokens row(static_cast<std::size_t>(size));
    std::iota(row.begin(), row.end(), next);
    next += size;
    rows.push_back(tokens_in_memory(row, "row " + std::to_string(rows.size())));
  }
  return TokenWindows(rows, sequence, stride, vocabulary);
}

std::pair<Tokens, Tokens> window(const TokenWindows& from, std::int64_t index) {
  const auto length = static_cast<std::size_t>(from.sequence());
  std::pair<Tokens, Tokens> pair{Tokens(length), Tokens(length)};
  from.read(index, pair.first, pair.second);
  return pair;
}

TEST(TokenWindows, ATargetIsTheNextToken) {
  const TokenWindows plain = windows({10}, 3, 3);
  EXPECT_EQ(plain.size(), 3);  // 0-3, 3-6, 6-9
  EXPECT_EQ(window(plain, 0), (std::pair{Tokens{0, 1, 2}, Tokens{1, 2, 3}}));
  EXPECT_EQ(window(plain, 2), (std::pair{Tokens{6, 7, 8}, Tokens{7, 8, 9}}));
  EXPECT_EQ(windows({9}, 3, 3).size(), 2);  // the last token has no next one
  EXPECT_EQ(windows({4}, 3, 3).size(), 1);
  const TokenWindows close = windows({6}, 3, 1);
  EXPECT_EQ(close.size(), 3);
  EXPECT_EQ(window(close, 1).second, (Tokens{2, 3, 4}));
}

TEST(TokenWindows, NoneCrossesIntoTheNextRow) {
  const TokenWindows rows = windows({5, 2, 8}, 3, 2);
  EXPECT_EQ(rows.tokens(), 15);
  EXPECT_EQ(rows.size(), 1 + 0 + 3);
  EXPECT_EQ(window(rows, 0).first, (Tokens{0, 1, 2}));
  EXPECT_EQ(window(rows, 1).first, (Tokens{7, 8, 9}));
  EXPECT_EQ(window(rows, 3).second, (Tokens{12, 13, 14}));
}

TEST(TokenWindows, ATokenThatIsNotOfTheVocabularyIsNamed) {
  const TokenWindows rows = windows({5, 5}, 2, 2, 9);
  window(rows, 0);
  EXPECT_THAT(message_of<InvalidInput>([&] { window(rows, 3); }),
              HasSubstr("row 1: token 9 at position 4 is not of a vocabulary of 9"));
  EXPECT_THAT(message_of<InvalidInput>([] { windows({3}, 3, 1); }),
              HasSubstr("row 0 has 3 tokens, a sample of sequence 3 takes 4"));
  EXPECT_THROW(windows({30}, 0, 1), InvalidInput);
  EXPECT_THROW(windows({30}, 1, -1), InvalidInput);
  EXPECT_THROW(windows({}, 1, 1), InvalidInput);
}

}  // namespace
}  // namespace cohort::train
