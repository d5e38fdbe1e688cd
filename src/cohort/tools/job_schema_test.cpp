// The schema and the reference of job files name the fields that the code knows, and no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "cohort/base/files/files.h"
#include "cohort/jobspec/known_names.h"
#include "cohort/tools/run_file.h"

namespace cohort::tools {
namespace {

std::filesystem::path source_file(const char* name) {
  return std::filesystem::path(std::getenv("COHORT_SOURCE_DIR")) / name;
}

TEST(JobSchema, NamesEveryKeyOnce) {
  const auto schema =
      nlohmann::json::parse(read_file(source_file("src/cohort/jobspec/job.schema.json")));
  std::set<std::string> in_schema, known;
  for (const auto& [name, property] : schema.at("properties").items()) in_schema.insert(name);
  for (const auto& name : jobspec::field_names()) known.insert(name);
  for (const auto& [alias, name] : jobspec::field_aliases()) known.insert(alias);
  for (std::string name : known_run_options().names) {
    std::replace(name.begin(), name.end(), '-', '_');
    known.insert(name);
  }
  EXPECT_EQ(in_schema, known);
}

TEST(JobReference, ExplainsEveryField) {
  const std::string page = read_file(source_file("docs/jobfile.md"));
  std::vector<std::string> names = jobspec::field_names();
  for (const auto& [alias, name] : jobspec::field_aliases()) names.push_back(alias);
  for (const auto& name : names) EXPECT_THAT(page, ::testing::HasSubstr("`" + name + "`"));
}

}  // namespace
}  // namespace cohort::tools
