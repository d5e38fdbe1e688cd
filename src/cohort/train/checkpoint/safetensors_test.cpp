#include "cohort/train/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/put_file_test.h"

namespace cohort::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TensorMap sample() {
  torch::manual_seed(3);
  TensorMap tensors;
  for (auto type :
       {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16, torch::kInt64,
        torch::kInt32, torch::kInt16, torch::kInt8, torch::kUInt8, torch::kBool})
    tensors.emplace(std::string("t.") + c10::toString(type),
                    (torch::randn({3, 5}) * 20).abs().to(type));
  tensors.emplace("scalar", torch::tensor(7, torch::kInt64));
  tensors.emplace("empty", torch::empty({0, 4}));
  tensors.emplace("transposed", torch::randn({4, 6}).t());
  tensors.emplace("name with \"quotes\" and \xc3\xa9", torch::ones({1}));
  return tensors;
}

void expect_same(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_EQ(tensor.scalar_type(), b.at(name).scalar_type()) << name;
    EXPECT_TRUE(torch::equal(tensor, b.at(name))) << name;
  }
}

TEST(Safetensors, WhatWasSavedIsLoadedBitForBit) {
  ScratchFolder folder;
  const auto saved = save_safetensors(folder / "a", sample(), {{"format", "pt"}});
  const auto loaded = load_safetensors(folder / "a");
  expect_same(sample(), loaded.tensors);
  EXPECT_EQ(loaded.metadata, (Metadata{{"format", "pt"}}));
  EXPECT_EQ(fingerprint(loaded.tensors), fingerprint(sample()));
  const auto bytes = read_file(folder / "a");
  EXPECT_EQ(saved.bytes, bytes.size());
  EXPECT_EQ(saved.sha256, sha256(bytes));
  EXPECT_EQ(loaded.file.sha256, saved.sha256);
}

TEST(Safetensors, TheSameTensorsGiveTheSameBytes) {
  ScratchFolder folder;
  EXPECT_EQ(save_safetensors(folder / "a", sample()).sha256,
            save_safetensors(folder / "b", sample()).sha256);
}

TEST(Safetensors, ATypeThatTheFormatDoesNotHaveIsNamed) {
  ScratchFolder folder;
  EXPECT_THAT(message_of<InvalidInput>([&] {
                save_safetensors(folder / "a", {{"w", torch::zeros({2}, torch::kComplexFloat)}});
              }),
              AllOf(HasSubstr("'w'"), HasSubstr("ComplexFloat")));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.tmp"));
}

TEST(Safetensors, AFileCutAnywhereIsRefused) {
  ScratchFolder folder;
  save_safetensors(folder / "a", sample());
  const auto bytes = read_file(folder / "a");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    put(folder / "cut", bytes.substr(0, size));
    EXPECT_THAT(message_of<InvalidInput>([&] { load_safetensors(folder / "cut"); }),
                HasSubstr("cut"))
        << size;
  }
}

TEST(Safetensors, AFlippedByteOfDataNamesItsTensor) {
  ScratchFolder folder;
  save_safetensors(folder / "a", {{"x", torch::ones({100})}, {"y", torch::ones({100})}});
  const auto bytes = read_file(folder / "a");
  for (std::size_t back : {1u, 399u, 400u}) {
    auto damaged = bytes;
    damaged[bytes.size() - back] ^= 4;
    put(folder / "b", damaged);
    EXPECT_THAT(message_of<InvalidInput>([&] { load_safetensors(folder / "b"); }),
                AllOf(HasSubstr("/b'"), HasSubstr("tensor 'y' has checksum")));
  }
}

TEST(Safetensors, AForeignFileAndAFolderAreRefused) {
  ScratchFolder folder;
  put(folder / "page", "<!DOCTYPE html><html><body>404: not found</body></html>");
  EXPECT_THAT(message_of<InvalidInput>([&] { load_safetensors(folder / "page"); }),
              HasSubstr("not a usable safetensors file"));
  EXPECT_THROW(load_safetensors(folder.path()), InvalidInput);
  EXPECT_THAT(message_of<SystemError>([&] { load_safetensors(folder / "none"); }),
              HasSubstr("none"));
}

TEST(Safetensors, ADescriptionAllocatesTheSameShapes) {
  const auto tensors = sample();
  const auto allocated = allocate_tensors(describe_tensors(tensors));
  ASSERT_EQ(allocated.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(allocated.at(name).sizes(), tensor.sizes());
    EXPECT_EQ(allocated.at(name).scalar_type(), tensor.scalar_type());
  }
  EXPECT_TRUE(allocate_tensors(describe_tensors({})).empty());
}

// A Python that has the safetensors package, or empty.
std::string python_with_safetensors() {
  for (const char* python : {COHORT_SOURCE_DIR "/.venv/bin/python3", "python3"})
    if (std::system(
            fmt::format("{} -c 'import numpy, safetensors.numpy' 2>/dev/null", python).c_str()) ==
        0)
      return python;
  return {};
}

std::string output_of(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> buffer;
  while (std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), count);
  return text;
}

TEST(Safetensors, PythonReadsOursAndWeReadPythons) {
  const std::string python = python_with_safetensors();
  if (python.empty()) GTEST_SKIP() << "no python3 that imports safetensors and numpy";
  ScratchFolder folder;
  auto tensors = sample();
  tensors.erase("t.BFloat16");  // numpy has no such type
  save_safetensors(folder / "ours", tensors, {{"format", "pt"}});
  put(folder / "copy.py", R"(
import sys
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
loaded = load_file(sys.argv[1])
with safe_open(sys.argv[1], "numpy") as file:
    assert file.metadata()["format"] == "pt"
    assert set(file.keys()) == set(loaded)
print(len(loaded), loaded["scalar"].item(), loaded["transposed"].shape, loaded["t.Half"].dtype)
save_file(loaded, sys.argv[2])
)");
  EXPECT_EQ(output_of(fmt::format("{} {} {} {} 2>&1", python, (folder / "copy.py").string(),
                                  (folder / "ours").string(), (folder / "theirs").string())),
            "13 7 (6, 4) float16\n");
  expect_same(tensors, load_safetensors(folder / "theirs").tensors);
}

}  // namespace
}  // namespace cohort::train
