#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cohort/service/store/run_store.h"

// Times as the API writes them. Pure.
namespace cohort::service {

std::string time_text(Millis time);  // 2026-01-31T12:34:56.789Z

// RFC 3339 ("Z" or an offset; a fraction of a second or none), or seconds back from `now`: "600",
// "1.5". Nothing for other texts.
std::optional<Millis> parse_since(std::string_view text, Millis now);

}  // namespace cohort::service
