#include "cohort/train/checkpoint/load_weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdlib>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/put_file_test.h"
#include "cohort/train/checkpoint/safetensors.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The parameters as a hub's GPT-2 has them.
TensorMap hub_tensors() {
  torch::manual_seed(5);
  return {{"transformer.wte.weight", torch::randn({5, 3})},
          {"transformer.c_attn.weight", torch::randn({3, 4})},
          {"transformer.c_attn.bias", torch::randn({4})},
          {"transformer.attn.bias", torch::ones({1, 1, 2, 2})}};
}

// A layer and a table that is tied to the head.
struct TiedModule : torch::nn::Module {
  TiedModule() {
    qkv = register_module("qkv", torch::nn::Linear(3, 4));
    table = register_parameter("table", torch::zeros({5, 3}));
    register_parameter("head", table);
  }
  torch::nn::Linear qkv{nullptr};
  torch::Tensor table;
};

WeightMapping hub_mapping() {
  return {.prefix = "transformer.",
          .rename = {{"wte.weight", "table"}, {"c_attn.*", "qkv.*"}, {"attn.bias", ""}},
          .transposed = {"qkv.weight"}};
}

TEST(LoadWeights, AMappingNamesTransposesAndTies) {
  ScratchFolder folder;
  const TensorMap hub = hub_tensors();
  save_safetensors(folder / "model.safetensors", hub, {{"format", "pt"}});
  for (const auto& path : {folder / "model.safetensors", folder.path()}) {
    TiedModule net;
    EXPECT_THAT(load_weights(net, path, {.mapping = hub_mapping()}), IsEmpty());
    EXPECT_TRUE(torch::equal(net.qkv->weight, hub.at("transformer.c_attn.weight").t()));
    EXPECT_TRUE(net.qkv->weight.is_contiguous());
    EXPECT_TRUE(torch::equal(net.qkv->bias, hub.at("transformer.c_attn.bias")));
    EXPECT_TRUE(torch::equal(net.named_parameters()["head"], hub.at("transformer.wte.weight")));
    EXPECT_TRUE(net.table.requires_grad());
  }
}

TEST(LoadWeights, WhatDoesNotFitIsListedAndNothingChanges) {
  ScratchFolder folder;
  save_safetensors(folder / "a.safetensors", hub_tensors());
  TiedModule net;
  const std::string before = fingerprint(net);
  EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(net, folder / "a.safetensors"); }),
              AllOf(HasSubstr("'qkv.weight' is missing"), HasSubstr("give a mapping"),
                    HasSubstr("the model has no 'transformer.wte.weight'")));
  WeightMapping crossed = hub_mapping();
  crossed.transposed.clear();
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { load_weights(net, folder / "a.safetensors", {.mapping = crossed}); }),
              HasSubstr("'qkv.weight' is Float [3, 4], the model has Float [4, 3]"));
  crossed.transposed = {"qkv.*"};
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { load_weights(net, folder / "a.safetensors", {.mapping = crossed}); }),
              HasSubstr("'qkv.bias' has 1 dimensions"));
  crossed.rename = {{"*", "table"}};
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { load_weights(net, folder / "a.safetensors", {.mapping = crossed}); }),
              HasSubstr("are both the model's 'table'"));
  EXPECT_EQ(fingerprint(net), before);
  crossed = hub_mapping();
  crossed.transposed.clear();
  EXPECT_THAT(load_weights(net, folder / "a.safetensors", {.strict = false, .mapping = crossed}),
              ElementsAre("qkv.weight"));
}

TEST(LoadWeights, TiedTensorsThatDifferAreRefused) {
  ScratchFolder folder;
  TensorMap both = hub_tensors();
  both["head"] = torch::randn({5, 3});
  save_safetensors(folder / "a.safetensors", both);
  TiedModule net;
  EXPECT_THAT(message_of<InvalidInput>(
                  [&] { load_weights(net, folder / "a.safetensors", {.mapping = hub_mapping()}); }),
              HasSubstr("are one tensor in the model and two different ones"));
  both["head"] = both["transformer.wte.weight"].clone();
  save_safetensors(folder / "a.safetensors", both);
  EXPECT_THAT(load_weights(net, folder / "a.safetensors", {.mapping = hub_mapping()}), IsEmpty());
}

TEST(LoadWeights, PrecisionIsConvertedWhereThatIsAsked) {
  ScratchFolder folder;
  for (const auto type : {torch::kFloat16, torch::kBFloat16, torch::kFloat64}) {
    torch::nn::Linear saved(3, 2), loaded(3, 2);
    save_weights(*saved, folder / "a.safetensors", {.type = type});
    EXPECT_EQ(load_safetensors(folder / "a.safetensors").tensors.at("weight").scalar_type(), type);
    EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(*loaded, folder / "a.safetensors"); }),
                HasSubstr("the model has Float [2]"));
    load_weights(*loaded, folder / "a.safetensors", {.convert = true});
    EXPECT_EQ(loaded->weight.scalar_type(), torch::kFloat32);
    EXPECT_TRUE(torch::equal(loaded->weight, saved->weight.to(type).to(torch::kFloat32)));
  }
}

TEST(LoadWeights, SavedUnderAMappingComesBackUnderIt) {
  ScratchFolder folder;
  TiedModule saved, loaded;
  {
    torch::NoGradGuard no_grad;
    saved.table.normal_();
  }
  WeightMapping mapping = hub_mapping();
  mapping.rename.push_back({"lm_head", "head"});
  save_weights(saved, folder / "a.safetensors", {.mapping = mapping});
  const TensorMap file = load_safetensors(folder / "a.safetensors").tensors;
  EXPECT_EQ(file.at("transformer.c_attn.weight").sizes(), torch::IntArrayRef({3, 4}));
  EXPECT_TRUE(file.contains("transformer.lm_head"));
  load_weights(loaded, folder / "a.safetensors", {.mapping = mapping});
  EXPECT_EQ(fingerprint(loaded), fingerprint(saved));
}

TEST(LoadWeights, AnIndexNamesTheFilesOfItsTensors) {
  ScratchFolder folder;
  torch::nn::Linear saved(3, 2), loaded(3, 2);
  save_safetensors(folder / "one.safetensors", {{"weight", saved->weight.detach()}});
  save_safetensors(folder / "two.safetensors",
                   {{"bias", saved->bias.detach()}, {"unlisted", torch::zeros({1})}});
  const auto index = folder / "model.safetensors.index.json";
  const auto write_index = [&](const std::string& bias) {
    put(index, R"({"metadata": {"total_size": 32}, "weight_map": {"weight": "one.safetensors",)"
               R"("bias": ")" +
                   bias + R"("}})");
  };
  write_index("two.safetensors");
  EXPECT_THAT(load_weights(*loaded, index), IsEmpty());
  EXPECT_EQ(fingerprint(*loaded), fingerprint(*saved));
  EXPECT_THAT(load_weights(*loaded, folder.path()), IsEmpty());
  write_index("one.safetensors");
  EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(*loaded, index); }),
              HasSubstr("tensor 'bias' is not in 'one.safetensors'"));
  for (const std::string outside : {"../two.safetensors", "/etc/passwd", "..", "", "a/b"}) {
    write_index(outside);
    EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(*loaded, index); }),
                HasSubstr("which is no file beside the index"));
  }
  put(index, "[]");
  EXPECT_THAT(message_of<InvalidInput>([&] { load_weights(*loaded, index); }),
              HasSubstr("has no weight_map"));
}

// As a hub keeps a model: half precision, matrices the other way round, two files and an index.
TEST(LoadWeights, AModelOfPythonComesInAndGoesBack) {
  const std::string python = COHORT_SOURCE_DIR "/.venv/bin/python3";
  if (std::system((python + " -c 'import numpy, safetensors.numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no safetensors and numpy in .venv";
  ScratchFolder folder;
  put(folder / "hub.py", R"(
import json, sys
import numpy
from safetensors.numpy import load_file, save_file
folder = sys.argv[1]
def values(*shape):
    return (numpy.arange(numpy.prod(shape)).reshape(shape) / 8).astype("float16")
parts = {"model-1.safetensors": {"transformer.wte.weight": values(5, 3), "transformer.attn.bias": values(1)},
         "model-2.safetensors": {"transformer.c_attn.weight": values(3, 4), "transformer.c_attn.bias": values(4)}}
if sys.argv[2] == "make":
    for file, tensors in parts.items():
        save_file(tensors, f"{folder}/{file}", metadata={"format": "pt"})
    names = {name: file for file, tensors in parts.items() for name in tensors}
    json.dump({"metadata": {}, "weight_map": names}, open(f"{folder}/model.safetensors.index.json", "w"))
else:
    loaded = load_file(f"{folder}/out.safetensors")
    for tensors in parts.values():
        for name, tensor in tensors.items():
            if name != "transformer.attn.bias":
                assert loaded[name].dtype == "float16" and (loaded[name] == tensor).all(), name
)");
  const auto run = [&](const char* what) {
    return std::system(fmt::format("{} {} {} {}", python, (folder / "hub.py").string(),
                                   folder.path().string(), what)
                           .c_str());
  };
  ASSERT_EQ(run("make"), 0);
  TiedModule net;
  EXPECT_THAT(load_weights(net, folder.path(), {.mapping = hub_mapping(), .convert = true}),
              IsEmpty());
  EXPECT_EQ(net.qkv->weight[1][0].item<float>(), 1.f / 8);  // the file's [0][1]
  WeightMapping back = hub_mapping();
  back.rename.push_back({"lm_head.weight", "head"});
  save_weights(net, folder / "out.safetensors", {.mapping = back, .type = torch::kFloat16});
  EXPECT_EQ(run("check"), 0);
}

// Names like a checkpoint's part say nothing: hubs have models whose tensors are all "model.*".
TEST(LoadWeights, AnotherProgramsModelPrefixStays) {
  ScratchFolder folder;
  save_safetensors(folder / "a.safetensors",
                   {{"model.weight", torch::ones({2, 3})}, {"bias", torch::ones({2})}});
  torch::nn::Linear net(3, 2);
  EXPECT_THAT(load_weights(*net, folder / "a.safetensors", {.mapping = {.prefix = "model."}}),
              IsEmpty());
  EXPECT_TRUE(torch::equal(net->weight, torch::ones({2, 3})));
}

}  // namespace
}  // namespace cohort::train
