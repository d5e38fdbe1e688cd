#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/jobspec/resolved_job.h"

// What an instance type says about cores, memory and GPUs. Pure functions.
namespace cohort::jobspec {

// "4x8g", "4x8GiBx1", "0.5x512m": CORESxMEMORY[xGPUS], Cohort's own. Nothing for another form.
std::optional<Size> parse_own_size(std::string_view name);

// "TI.SMALL2.1core2g", "TI.GN10X.2XLARGE40.1xV100": the suffix says cores and memory, or GPUs; with
// GPUs the size word says the rest as that platform's machines have it (SMALL 1 core, MEDIUM 2,
// LARGE 4, nXLARGE 4n; the number behind it is GiB). Nothing for another form.
std::optional<Size> parse_ti_name(std::string_view name);

// "2 GiB", "512m", "1.5g", "4096": bytes; units of 1024. Nothing for another form.
std::optional<std::uint64_t> parse_memory(std::string_view text);

// "2 cores, 7.5 GiB and 1 GPU"; memory is left out when it is 0.
std::string to_words(const Size& size);
std::string memory_text(std::uint64_t bytes);  // "2 GiB"; parse_memory() gives the same again

}  // namespace cohort::jobspec
