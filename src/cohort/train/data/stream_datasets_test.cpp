// TarDataset, TableDataset, IterableDataset: what makes tensors of files and streams.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>

#include "cohort/base/error.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/train/data/iterable_dataset.h"
#include "cohort/train/data/loader.h"
#include "cohort/train/data/table_dataset.h"
#include "cohort/train/data/tar_dataset.h"

namespace cohort::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

TEST(StackSamples, SamplesBecomeRows) {
  using Tree = std::tuple<torch::Tensor, std::map<std::string, torch::Tensor>, int>;
  const auto tree = [](int i) {
    return Tree{torch::full({2}, i), {{"x", torch::tensor(i, torch::kInt64)}}, i};
  };
  const Tree batch = stack_samples(std::vector<Tree>{tree(1), tree(2)});
  EXPECT_EQ(std::get<0>(batch).sizes(), torch::IntArrayRef({2, 2}));
  EXPECT_TRUE(torch::equal(std::get<1>(batch).at("x"), torch::tensor({1, 2}, torch::kInt64)));
  EXPECT_THAT(message_of<InvalidInput>([] {
                stack_samples(std::vector{torch::zeros({2}), torch::zeros({3})});
              }),
              HasSubstr("sample 1 of a batch has a tensor Float [3], the first has Float [2]"));
  using Map = std::map<std::string, torch::Tensor>;
  EXPECT_THAT(message_of<InvalidInput>([] {
                stack_samples(std::vector<Map>{{{"a", torch::ones({1})}}, {}});
              }),
              HasSubstr("sample 1 of a batch has 0 tensors, the first has 1"));
}

struct TarItem {
  torch::Tensor values, label;
};

// An archive of 6 samples as Python and NumPy write them; empty where these are not there.
std::filesystem::path python_archive(const ScratchFolder& folder) {
  const std::string python = COHORT_SOURCE_DIR "/.venv/bin/python3";
  if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) != 0) return {};
  std::ofstream(folder / "make.py") << R"(
import io, sys, tarfile
import numpy
with tarfile.open(sys.argv[1], "w") as archive:
    for i in range(6):
        data = io.BytesIO()
        numpy.save(data, numpy.full((2, 3), i, dtype="float32"))
        for extension, content in (("npy", data.getvalue()), ("cls", f"{i % 3}\n".encode()), ("txt", b"word")):
            info = tarfile.TarInfo(f"{i:04}.{extension}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
)";
  const auto path = folder / "a.tar";
  EXPECT_EQ(
      std::system((python + " " + (folder / "make.py").string() + " " + path.string()).c_str()), 0);
  return path;
}

TEST(TarDataset, DecodedSamplesAreBatchesOfALoader) {
  ScratchFolder folder;
  const auto path = python_archive(folder);
  if (path.empty()) GTEST_SKIP() << "no numpy in .venv";
  const auto dataset = std::make_shared<TarDataset<TarItem>>(
      std::vector<std::filesystem::path>{path}, [](const TarSample& sample) {
        return TarItem{npy_tensor(sample.file("npy")), class_tensor(sample.file("cls"))};
      });
  EXPECT_EQ(dataset->size(), 6);
  Loader loader(dataset, 3,
                [](std::int64_t number) {
                  return Indices{2 * number, 2 * number + 1};
                },
                {}, {.depth = 3, .threads = 2});
  for (int i = 0; i < 3; ++i) {
    const auto batch = loader.next().value();
    const TarItem& item = batch.as<TarItem>();
    EXPECT_EQ(item.values.sizes(), torch::IntArrayRef({2, 2, 3}));
    EXPECT_EQ(item.values[1][0][0].item<float>(), 2.f * static_cast<float>(i) + 1);
    EXPECT_TRUE(
        torch::equal(item.label, torch::tensor({2 * i % 3, (2 * i + 1) % 3}, torch::kInt64)));
  }
  EXPECT_EQ(dataset->get(Indices{}, {}).values.sizes(), torch::IntArrayRef({0, 2, 3}));
  const TarDataset<Batch> wrong({path}, [](const TarSample& sample) {
    return Batch{npy_tensor(sample.file("npy")), class_tensor(sample.file("txt"))};
  });
  EXPECT_THAT(
      message_of<InvalidInput>([&] { wrong.get(Indices{2}, {}); }),
      testing::AllOf(HasSubstr("a.tar', sample '0002' at byte"), HasSubstr("'word' is no class")));
}

TEST(TarDataset, ContentsBecomeTensors) {
  EXPECT_EQ(class_tensor(" -12\n").item<std::int64_t>(), -12);
  EXPECT_THROW(class_tensor(""), InvalidInput);
  EXPECT_THROW(class_tensor("1.5"), InvalidInput);
  EXPECT_TRUE(torch::equal(bytes_tensor("\x01\xff"), torch::tensor({1, 255}, torch::kUInt8)));
  EXPECT_EQ(bytes_tensor("").numel(), 0);
  EXPECT_THROW(npy_tensor("nothing"), InvalidInput);
}

TEST(TableDataset, ColumnsAreTensorsByName) {
  ScratchFolder folder;
  std::ofstream(folder / "a.csv") << "age,city,sold\n1.5,B,3\n2.5,A,4\n3.5,B,5\n";
  const TableDataset table(folder / "a.csv",
                           {.columns = {{.name = "age"},
                                        {.name = "city", .type = ColumnType::category},
                                        {.name = "sold", .type = ColumnType::integer}}});
  EXPECT_EQ(table.size(), 3);
  const auto batch = table.get(Indices{2, 0}, {});
  EXPECT_TRUE(torch::equal(batch.at("age"), torch::tensor({3.5f, 1.5f})));
  EXPECT_TRUE(torch::equal(batch.at("city"), torch::tensor({1, 1}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.at("sold"), torch::tensor({5, 3}, torch::kInt64)));
  EXPECT_THAT(table.words("city"), ElementsAre("A", "B"));
  const DatasetPtr pairs = table.pairs({"age", "city"}, "sold");
  const Batch pair = pairs->get(Indices{1}, {});
  EXPECT_TRUE(torch::equal(pair.data, torch::tensor({{2.5f, 0.f}})));
  EXPECT_EQ(pair.target.item<std::int64_t>(), 4);
  EXPECT_THAT(message_of<InvalidInput>([&] { table.column("town"); }),
              HasSubstr("no column 'town'; it has age, city, sold"));
  EXPECT_THROW(table.get(Indices{3}, {}), InvalidInput);
}

// Epoch e gives the numbers 1000 * e, 1000 * e + 1, ...
class CountingStream : public IterableDataset<Batch> {
 public:
  CountingStream(std::function<std::int64_t(std::int64_t epoch)> length, std::int64_t samples = 0)
      : IterableDataset(samples), length_(std::move(length)) {}

  std::unique_ptr<SampleStream<Batch>> stream(const DrawKey& key) const override {
    struct Stream : SampleStream<Batch> {
      std::optional<Batch> next() override {
        if (at == end) return std::nullopt;
        ++*made;
        const std::int64_t number = base + at++;
        return Batch{torch::full({1}, number), torch::tensor(number, torch::kInt64)};
      }
      std::int64_t skip(std::int64_t count) override {
        const std::int64_t passed = std::min(count, end - at);
        at += passed;
        return passed;
      }
      std::int64_t at = 0, end = 0, base = 0;
      std::atomic<int>* made = nullptr;
    };
    ++opened;
    auto made_stream = std::make_unique<Stream>();
    made_stream->end = length_(key.epoch);
    made_stream->base = 1000 * key.epoch;
    made_stream->made = &made;
    return made_stream;
  }

  mutable std::atomic<int> opened = 0, made = 0;

 private:
  std::function<std::int64_t(std::int64_t)> length_;
};

Indices numbers_of(const IterableDataset<Batch>& dataset, const Indices& indices,
                   std::int64_t epoch) {
  const Batch batch = dataset.get(indices, {.seed = 5, .epoch = epoch});
  return {batch.target.data_ptr<std::int64_t>(),
          batch.target.data_ptr<std::int64_t>() + batch.target.numel()};
}

TEST(IterableDataset, AscendingReadsTakeOneStreamAnEpoch) {
  const CountingStream dataset([](std::int64_t) { return 100; });
  EXPECT_TRUE(dataset.is_sequential());
  EXPECT_EQ(dataset.size(), 100);  // counted, without making one
  EXPECT_EQ(dataset.made, 0);
  for (std::int64_t i = 0; i < 90; i += 10)
    EXPECT_EQ(numbers_of(dataset, {i, i + 1}, 2), (Indices{2000 + i, 2001 + i}));
  EXPECT_EQ(dataset.opened, 2);  // the count, and the epoch
  EXPECT_EQ(dataset.made, 18);   // what lies between was passed over
  EXPECT_EQ(numbers_of(dataset, {3, 50}, 2), (Indices{2003, 2050}));  // back: a new stream
  EXPECT_EQ(numbers_of(dataset, {99}, 3), (Indices{3099}));
  EXPECT_THROW(numbers_of(dataset, {100}, 3), InvalidInput);
}

TEST(IterableDataset, ALengthThatChangesIsNamed) {
  const CountingStream shorter([](std::int64_t epoch) { return epoch == 0 ? 10 : 7; });
  EXPECT_EQ(numbers_of(shorter, {6}, 1), (Indices{1006}));
  EXPECT_THAT(message_of<InvalidInput>([&] { numbers_of(shorter, {7}, 1); }),
              HasSubstr("the stream of epoch 1 ended after 7 samples, an epoch has 10"));
  const CountingStream longer([](std::int64_t epoch) { return 10 + epoch; });
  EXPECT_THAT(message_of<InvalidInput>([&] {
                numbers_of(longer, {8, 9}, 2);
              }),
              HasSubstr("the stream of epoch 2 goes on after 10 samples"));
  const CountingStream declared([](std::int64_t epoch) { return 10 + epoch; }, 10);
  EXPECT_EQ(numbers_of(declared, {9}, 2), (Indices{2009}));
  EXPECT_EQ(declared.opened, 1);  // nothing was counted
}

TEST(IterableDataset, ThreadsOfALoaderReadWithStreamsOfTheirOwn) {
  const auto dataset = std::make_shared<CountingStream>([](std::int64_t) { return 240; });
  Loader loader(dataset, 80,
                [](std::int64_t i) {
                  return Indices{3 * i, 3 * i + 1, 3 * i + 2};
                },
                {.seed = 1, .epoch = 4}, {.depth = 8, .threads = 4});
  std::int64_t next = 4000;
  while (const auto batch = loader.next())
    for (int row = 0; row < 3; ++row)
      EXPECT_EQ(batch->as<Batch>().target[row].item<std::int64_t>(), next++);
  EXPECT_EQ(next, 4240);
}

}  // namespace
}  // namespace cohort::train
