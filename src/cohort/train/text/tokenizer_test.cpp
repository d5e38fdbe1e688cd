#include "cohort/train/text/tokenizer.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

TEST(ByteTokenizer, EveryByteComesBack) {
  const ByteTokenizer bytes;
  std::string text;
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  const auto tokens = bytes.encode(text);
  EXPECT_EQ(tokens.size(), 256u);
  EXPECT_EQ(tokens[255], 255);
  EXPECT_EQ(bytes.decode(tokens), text);
  EXPECT_EQ(bytes.vocabulary(), 256);
  EXPECT_THAT(message_of<InvalidInput>([&] {
                bytes.decode(std::vector<std::int64_t>{65, 256});
              }),
              ::testing::HasSubstr("token 256 is no byte"));
}

}  // namespace
}  // namespace cohort::train
