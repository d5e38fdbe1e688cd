#include "cohort/service/metrics/metric_files.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/report/metrics_log.h"

namespace cohort::service {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(const std::vector<FileValue>& values) {
  std::vector<std::string> texts;
  for (const auto& value : values)
    texts.push_back(fmt::format("{}@{}={}", value.name, value.step, value.value));
  return texts;
}

TEST(MetricFiles, ReadCsvFromAStepOn) {
  ScratchFolder folder;
  const auto path = folder / "metrics.csv";
  EXPECT_TRUE(read_metrics_csv(path, 0).empty());
  report::CsvLog log(path);
  log.write({.step = 10, .values = {{"epoch", std::int64_t{1}}, {"loss", 0.5}, {"note", "a,b"}}});
  log.write({.step = 20, .values = {{"epoch", std::int64_t{2}}, {"loss", 0.25}, {"acc", 0.75}}});
  log.flush();
  EXPECT_THAT(texts(read_metrics_csv(path, 0)),
              ElementsAre("loss@10=0.5", "loss@20=0.25", "acc@20=0.75"));
  EXPECT_THAT(texts(read_metrics_csv(path, 11)), ElementsAre("loss@20=0.25", "acc@20=0.75"));
  for (const char* text : {"", "\n", "a,b\n1,2\n", "step\n\n", "step,x\n1\nz,3\n"}) {
    write_file_atomically(path, text);
    EXPECT_TRUE(read_metrics_csv(path, 0).empty()) << text;
  }
}

TEST(MetricFiles, ReadJsonLinesAsTheyGrow) {
  ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  EXPECT_EQ(read_metrics_json(path, 0, 0, 4096).next, 0u);
  write_file_atomically(path, "{\"step\":1,\"loss\":0.5,\"event\":\"x\"}\nnonsense\n{\"step\":2,");
  auto part = read_metrics_json(path, 0, 0, 4096);
  EXPECT_THAT(texts(part.values), ElementsAre("loss@1=0.5"));
  EXPECT_FALSE(part.more);
  write_file_atomically(path, read_file(path) + "\"loss\":0.25}\n");
  part = read_metrics_json(path, part.next, 2, 4096);
  EXPECT_THAT(texts(part.values), ElementsAre("loss@2=0.25"));
  EXPECT_EQ(part.next, std::filesystem::file_size(path));
  write_file_atomically(path, "{\"step\":2,\"loss\":9}\n{\"step\":3,\"loss\":8}\n");
  part = read_metrics_json(path, part.next, 3, 4096);
  EXPECT_THAT(texts(part.values), ElementsAre("loss@3=8"));
  part = read_metrics_json(path, 0, 0, 25);
  EXPECT_THAT(texts(part.values), ElementsAre("loss@2=9"));
  EXPECT_TRUE(part.more);
}

TEST(MetricFiles, FindEventFilesAndNameTheirScalars) {
  ScratchFolder folder;
  std::filesystem::create_directories(folder / "tensorboard/fold");
  std::filesystem::create_directories(folder / "logs/train");
  const std::string file = "events.out.tfevents.1.h.2.0";
  for (const char* place : {"", "tensorboard/", "tensorboard/fold/", "logs/train/"})
    write_file_atomically(folder / (place + file), "");
  write_file_atomically(folder / "other", "");
  std::filesystem::create_symlink(folder / file, folder / "link.tfevents.1");
  const auto found = find_event_files(folder.path());
  ASSERT_EQ(found.size(), 4u);
  std::vector<std::string> names;
  for (const auto& path : found) names.push_back(event_metric_name(path, "loss"));
  EXPECT_THAT(names, ElementsAre("loss", "logs/train/loss", "loss", "fold/loss"));
  EXPECT_TRUE(find_event_files(folder / "none").empty());
}

}  // namespace
}  // namespace cohort::service
