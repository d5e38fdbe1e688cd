#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/value.h"

namespace cohort::jobspec {

// Internal to jobspec: one key of a description. All that knows a field's name and form is its line
// of the table in fields.cpp; JSON, TOML and the lists of names follow from it.
struct Field {
  const char* name;
  // Throws InvalidInput for a value of another form or out of range.
  void (*read)(const Value& value, JobSpec& spec);
  // Null when the field has its default. read() of it gives the same again.
  nlohmann::ordered_json (*write)(const JobSpec& spec);
};

const std::vector<Field>& all_fields();  // in the order of docs/jobfile.md
const Field* find_field(std::string_view name);

}  // namespace cohort::jobspec
