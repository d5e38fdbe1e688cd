#include "cohort/train/checkpoint/weight_names.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"

namespace cohort::train {
namespace {

using ::testing::HasSubstr;

WeightNames gpt_names() {
  return WeightNames({.prefix = "transformer.",
                      .rename = {{"h.*.attn.bias", ""},
                                 {"h.*.attn.c_attn.*", "blocks.*.qkv.*"},
                                 {"wte.*", "tokens.*"}},
                      .transposed = {"blocks.*.qkv.weight"}});
}

TEST(WeightNames, TheFirstRenameThatMatchesCounts) {
  const WeightNames names = gpt_names();
  EXPECT_EQ(names.module_name("transformer.h.11.attn.c_attn.weight"), "blocks.11.qkv.weight");
  EXPECT_EQ(names.module_name("h.0.attn.c_attn.bias"), "blocks.0.qkv.bias");
  EXPECT_EQ(names.module_name("transformer.h.0.attn.bias"), std::nullopt);
  EXPECT_EQ(names.module_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(names.module_name("transformer.wte.weight"), "tokens.weight");
  EXPECT_TRUE(names.is_transposed("blocks.3.qkv.weight"));
  EXPECT_FALSE(names.is_transposed("blocks.3.qkv.bias"));
  EXPECT_EQ(WeightNames({}).module_name("a.b"), "a.b");
}

TEST(WeightNames, TheWayBackIsTheSameMapping) {
  const WeightNames names = gpt_names();
  EXPECT_EQ(names.file_name("blocks.11.qkv.weight"), "transformer.h.11.attn.c_attn.weight");
  EXPECT_EQ(names.file_name("tokens.weight"), "transformer.wte.weight");
  EXPECT_EQ(names.file_name("other"), "transformer.other");
  EXPECT_THAT(message_of<InvalidInput>([&] { names.file_name("wte.weight"); }),
              HasSubstr("'wte.weight' would be written as 'transformer.wte.weight'"));
}

TEST(WeightNames, StarsMatchAnyTextInOrder) {
  const WeightNames names({.prefix = "",
                           .rename = {{"*.a.*.b", "*/*"}, {"x*", "y"}, {"*", "all.*"}},
                           .transposed = {}});
  EXPECT_EQ(names.module_name("1.a.2.b"), "1/2");
  EXPECT_EQ(names.module_name("1.a.2.a.3.b"), "1/2.a.3");
  EXPECT_EQ(names.module_name("1.a.b"), "all.1.a.b");  // the '.' before b is not there twice
  EXPECT_EQ(names.module_name("x.a.b"), "y");
  EXPECT_EQ(names.module_name(""), "all.");
  EXPECT_THAT(message_of<InvalidInput>([] {
                WeightNames({.prefix = "", .rename = {{"a.*", "*.*"}}, .transposed = {}});
              }),
              HasSubstr("more '*' on the right"));
}

}  // namespace
}  // namespace cohort::train
