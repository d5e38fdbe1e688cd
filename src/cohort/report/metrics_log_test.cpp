#include "cohort/report/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"

namespace cohort::report {
namespace {

using ::testing::HasSubstr;

TEST(CsvLog, TheFirstRowGivesTheColumns) {
  ScratchFolder folder;
  CsvLog log(folder / "metrics.csv");
  log.write({1, {{"loss", 0.5}, {"note", "a,b"}}});
  log.write({2, {{"note", "x"}, {"loss", 0.1}}});
  log.write({3, {}});
  log.flush();
  EXPECT_EQ(read_file(log.path()), "step,loss,note\n1,0.5,\"a,b\"\n2,0.1,x\n3,,\n");
}

TEST(CsvLog, ANewColumnIsAppendedToEveryLine) {
  ScratchFolder folder;
  CsvLog log(folder / "metrics.csv");
  log.write({1, {{"loss", 0.5}}});
  log.write({2, {{"accuracy", 0.9}, {"loss", 0.25}}});
  log.write({3, {{"loss", 0.125}}});
  log.flush();
  EXPECT_EQ(read_file(log.path()), "step,loss,accuracy\n1,0.5,\n2,0.25,0.9\n3,0.125,\n");
}

TEST(CsvLog, NumbersAreReadBackExactly) {
  ScratchFolder folder;
  CsvLog log(folder / "metrics.csv");
  log.write({1, {{"a", 0.1}, {"b", std::int64_t{1} << 60}, {"c", true}, {"d", NAN}}});
  log.flush();
  EXPECT_EQ(read_file(log.path()), "step,a,b,c,d\n1,0.1,1152921504606846976,true,nan\n");
}

TEST(CsvLog, AResumedFileLosesTheRowsThatWillBeWrittenAgain) {
  ScratchFolder folder;
  auto path = folder / "metrics.csv";
  write_file_atomically(path, "step,loss\n10,0.5\n20,0.4\n30,0.3\n40,0.");
  CsvLog log(path, 20);
  log.write({30, {{"loss", 0.31}, {"accuracy", 0.9}}});
  log.flush();
  EXPECT_EQ(read_file(path), "step,loss,accuracy\n10,0.5,\n20,0.4,\n30,0.31,0.9\n");
}

TEST(CsvLog, WithoutResumeTheFileBeginsAnew) {
  ScratchFolder folder;
  auto path = folder / "metrics.csv";
  write_file_atomically(path, "step,loss\n10,0.5\n");
  CsvLog log(path);
  log.write({1, {{"accuracy", 0.5}}});
  log.flush();
  EXPECT_EQ(read_file(path), "step,accuracy\n1,0.5\n");
}

TEST(CsvLog, AResumeWithoutAFileStartsOne) {
  ScratchFolder folder;
  CsvLog log(folder / "new/metrics.csv", 100);
  log.write({101, {{"loss", 1.0}}});
  log.flush();
  EXPECT_EQ(read_file(log.path()), "step,loss\n101,1\n");
}

TEST(CsvLog, ForeignFilesAreRefusedAndLeftAlone) {
  ScratchFolder folder;
  for (const char* text : {"name,age\nann,7\n", "step,loss\nfive,0.5\n"}) {
    write_file_atomically(folder / "metrics.csv", text);
    EXPECT_THAT(message_of<InvalidInput>([&] { CsvLog log(folder / "metrics.csv", 5); }),
                HasSubstr("metrics.csv' cannot be continued"));
    EXPECT_EQ(read_file(folder / "metrics.csv"), text);
  }
}

TEST(JsonLinesLog, EachRowIsAnObject) {
  ScratchFolder folder;
  JsonLinesLog log(folder / "metrics.jsonl");
  log.write({1, {{"loss", 0.5}, {"best", true}, {"note", "\"\n\xff"}, {"bad", INFINITY}}});
  log.flush();
  std::string text = read_file(log.path());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  auto object = nlohmann::json::parse(text);
  EXPECT_EQ(object["step"], 1);
  EXPECT_EQ(object["loss"], 0.5);
  EXPECT_EQ(object["best"], true);
  EXPECT_TRUE(object["bad"].is_null());
}

TEST(JsonLinesLog, AResumedFileLosesTheRowsThatWillBeWrittenAgain) {
  ScratchFolder folder;
  auto path = folder / "metrics.jsonl";
  write_file_atomically(path, "{\"step\":1,\"a\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st");
  JsonLinesLog log(path, 2);
  log.write({3, {{"a", 5}}});
  log.flush();
  EXPECT_EQ(read_file(path), "{\"step\":1,\"a\":1}\n{\"step\":2}\n{\"step\":3,\"a\":5}\n");
}

TEST(JsonLinesLog, ForeignFilesAreRefused) {
  ScratchFolder folder;
  write_file_atomically(folder / "m", "{\"loss\":1}\n");
  EXPECT_THAT(message_of<InvalidInput>([&] { JsonLinesLog log(folder / "m", 5); }),
              HasSubstr("{\"loss\":1}"));
}

}  // namespace
}  // namespace cohort::report
