#include "cohort/jobspec/known_names.h"

#include "cohort/jobspec/fields.h"

namespace cohort::jobspec {

const std::vector<std::string>& field_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const Field& field : all_fields()) result.emplace_back(field.name);
    return result;
  }();
  return names;
}

const std::vector<std::pair<std::string, std::string>>& field_aliases() {
  static const std::vector<std::pair<std::string, std::string>> aliases = {
      {"job_name", "name"},
      {"base_job_name", "name"},
      {"environment", "env"},
      {"distribution", "distributions"},
      {"train_instance_count", "instance_count"},
      {"train_instance_type", "instance_type"},
      {"train_max_run", "max_run"},
      {"max_restarts", "restarts"},
      {"restart_limit", "restarts"},
      {"output_path", "output"},
      {"image_uri", "image"},
      {"image_name", "image"},
  };
  return aliases;
}

}  // namespace cohort::jobspec
