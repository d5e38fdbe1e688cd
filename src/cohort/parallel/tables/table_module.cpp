#include "cohort/parallel/tables/table_module.h"

#include <algorithm>

#include "cohort/base/error.h"

namespace cohort::parallel {

void expect_tables(const TableImages& images, const std::vector<std::string>& names) {
  const char* advice = "Build the model with the options that it was saved with.";
  for (const std::string& name : names)
    if (!images.contains(name))
      throw InvalidInput(fmt::format("embedding table '{}' was not saved", name),
                         {.advice = advice});
  for (const auto& [name, pieces] : images)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw InvalidInput(
          fmt::format("the model has no embedding table '{}', which was saved", name),
          {.advice = advice});
}

}  // namespace cohort::parallel
