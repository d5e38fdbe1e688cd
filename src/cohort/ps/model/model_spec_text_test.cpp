#include "cohort/ps/model/model_spec_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/ps/model/model_spec_difference.h"

namespace cohort::ps {
namespace {

using ::testing::HasSubstr;

ModelSpec sample_model() {
  ModelSpec spec;
  spec.workers = 3;
  spec.shards = 4;
  spec.agreement = "--epochs 2";
  spec.policy = {.mode = Policy::Mode::bounded, .staleness = 2};
  spec.groups = {{.kind = UpdateRule::Kind::sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true},
                 {.kind = UpdateRule::Kind::adam, .lr = 1e-3 / 3}};
  spec.blocks = {{ElementType::f32, 100, {{"fc.weight", 0, 80, 0}, {"fc.bias", 96, 4, 1}}},
                 {ElementType::f64, 7, {{"scale", 0, 7, 0}}}};
  spec.tables = {{.name = "users", .dimension = 8, .group = 1, .keep_for = 5, .seed = UINT64_MAX}};
  return spec;
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_text(sample_model());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  return message_of<InvalidInput>([&] { parse_model_spec(text); });
}

TEST(ModelSpecTest, TextGivesTheSpecBack) {
  EXPECT_EQ(parse_model_spec(to_text(sample_model())), sample_model());
  EXPECT_EQ(parse_model_spec(to_text(ModelSpec{})), ModelSpec{});
}

TEST(ModelSpecTest, EqualSpecsHaveTheSameText) {
  ModelSpec minus = sample_model();
  minus.groups[0].weight_decay = -0.0;
  EXPECT_EQ(to_text(minus), to_text(sample_model()));
}

TEST(ModelSpecTest, RefusesNumbersOutOfRangeWithTheValue) {
  EXPECT_THAT(refusal(with("\"workers\":3", "\"workers\":0")), HasSubstr("has 0 as \"workers\""));
  EXPECT_THAT(refusal(with("\"workers\":3", "\"workers\":-3")), HasSubstr("has -3 as"));
  EXPECT_THAT(refusal(with("\"workers\":3", "\"workers\":3.5")), HasSubstr("has 3.5 as"));
  EXPECT_THAT(refusal(with("\"shards\":4", "\"shards\":2")), HasSubstr("2 shards for 3 workers"));
  EXPECT_THAT(refusal(with("\"elements\":7", "\"elements\":1099511627777")),
              HasSubstr("1099511627777"));
  EXPECT_THAT(refusal(with("\"elements\":7", "\"elements\":1099511627700")),
              HasSubstr("1099511627700 elements in block 1 after 100"));
  EXPECT_THAT(refusal(with("\"elements\":7", "\"elements\":99999999999999999999")),
              HasSubstr("elements"));
  EXPECT_THAT(refusal(with("\"lr\":0.1", "\"lr\":null")), HasSubstr("has null as \"lr\""));
  EXPECT_THAT(refusal(with("\"lr\":0.1", "\"lr\":1e999")), HasSubstr("a model's description"));
  EXPECT_THAT(refusal(with("\"lr\":0.1", "\"lr\":-0.1")), HasSubstr("lr = -0.1 in group 0"));
  EXPECT_THAT(refusal(with("\"beta2\":0.999", "\"beta2\":1.0")), HasSubstr("beta2 = 1"));
  EXPECT_THAT(refusal(with("\"momentum\":0.9", "\"momentum\":0.0")), HasSubstr("nesterov"));
  EXPECT_THAT(refusal(with("\"dimension\":8", "\"dimension\":65537")), HasSubstr("65537"));
  EXPECT_THAT(refusal(with("\"rows\":0", "\"rows\":1099511627776")), HasSubstr("values"));
}

TEST(ModelSpecTest, RefusesPartsThatDoNotFitTogether) {
  EXPECT_THAT(refusal(with("[\"fc.bias\",96,4,1]", "[\"fc.bias\",79,4,1]")),
              HasSubstr("'fc.bias' at element 79 of block 0, before element 80"));
  EXPECT_THAT(refusal(with("[\"fc.bias\",96,4,1]", "[\"fc.bias\",96,5,1]")),
              HasSubstr("'fc.bias' with 5 elements at 96"));
  EXPECT_THAT(refusal(with("[\"fc.bias\",96,4,1]", "[\"fc.bias\",96,4,2]")),
              HasSubstr("'fc.bias' into group 2 of 2"));
  EXPECT_THAT(refusal(with("[\"fc.bias\",96,4,1]", "[\"fc.bias\",96,4]")), HasSubstr("parts"));
}

TEST(ModelSpecTest, RefusesOtherShapesOfText) {
  EXPECT_THAT(refusal(""), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a dictionary"));
  EXPECT_THAT(refusal(std::string(100000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(std::string(5 << 20, ' ')), HasSubstr("bytes; at most"));
  EXPECT_THAT(refusal(with("\"workers\":3", "\"workers\":3,\"extra\":1")), HasSubstr("fields"));
  EXPECT_THAT(refusal(with("\"workers\":3,", "")), HasSubstr("lacks \"workers\""));
  EXPECT_THAT(refusal(with("\"sgd\"", "\"sgdd\"")), HasSubstr("'sgdd' is no update rule"));
}

TEST(ModelSpecTest, DamagedTextIsRefusedOrReadButNeverMore) {
  std::mt19937 random(1);
  const std::string text = to_text(sample_model());
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (unsigned i = 0; i <= random() % 3; ++i)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      const ModelSpec spec = parse_model_spec(damaged);
      EXPECT_EQ(parse_model_spec(to_text(spec)), spec);
    } catch (const InvalidInput&) {
    }
  }
}

TEST(ModelSpecTest, DifferenceNamesTheFirstWithBothValues) {
  const auto changed = [](const std::function<void(ModelSpec&)>& change) {
    ModelSpec other = sample_model();
    change(other);
    return difference(sample_model(), "worker/0", other, "worker/1");
  };
  EXPECT_EQ(changed([](ModelSpec&) {}), "");
  EXPECT_EQ(changed([](ModelSpec& spec) { spec.blocks[0].parts[0].elements = 90; }),
            "fc.weight has 80 elements on worker/0 and 90 on worker/1");
  EXPECT_EQ(changed([](ModelSpec& spec) { spec.groups[1].lr = 0.5; }),
            "group 1 has lr = 0.0003333333333333333 on worker/0 and 0.5 on worker/1");
  EXPECT_EQ(changed([](ModelSpec& spec) { spec.policy.mode = Policy::Mode::sync; }),
            "the mode is bounded on worker/0 and sync on worker/1");
  EXPECT_EQ(changed([](ModelSpec& spec) { spec.agreement = "--epochs 3"; }),
            "the options are '--epochs 2' on worker/0 and '--epochs 3' on worker/1");
  ModelSpec first = sample_model(), second = sample_model();
  first.agreement = R"({"batch_size": 64, "max_steps": 100})";
  second.agreement = R"({"batch_size": 64, "max_steps": 200})";
  EXPECT_EQ(difference(first, "ps/0", second, "worker/0"),
            "max_steps is 100 on ps/0 and 200 on worker/0");
  EXPECT_EQ(changed([](ModelSpec& spec) { spec.tables.clear(); }),
            "the model has 1 tables on worker/0 and 0 on worker/1");
}

}  // namespace
}  // namespace cohort::ps
