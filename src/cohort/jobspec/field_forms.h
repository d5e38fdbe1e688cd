#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/jobspec/job_spec.h"
#include "cohort/jobspec/value.h"

// Internal to jobspec: the forms that several fields share. Pure functions.
namespace cohort::jobspec {

// Names of jobs, queues and channels: letters, digits, '.', '_', '-', at most 100 of them, the first
// a letter or a digit. `at` is what a message names.
void require_name(const Value& at, const std::string& name);

// Names of hyperparameters, which become options: letters, digits, '_', '-', '.', the first a letter
// or '_'.
bool is_option_name(std::string_view name);
void require_option_name(const Value& at, const std::string& name);

// "2h30m", "1d", "90", "45s": at most ten years. Nothing for another form.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// {name: value} of names and JSON texts; null when there are none.
nlohmann::ordered_json json_object(const NamedJson& named);

}  // namespace cohort::jobspec
