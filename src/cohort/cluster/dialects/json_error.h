#pragma once

#include <cstddef>
#include <string_view>

#include "cohort/base/error.h"

namespace cohort::cluster {

// What to throw for text that is no JSON. `source` is where the text came from ("TF_CONFIG"),
// `offset` the byte at which the parser gave up, `parser_says` the parser's own message. The error
// says line, column and offset, quotes the neighbourhood, and names the usual mistake where it
// recognises one.
InvalidInput broken_json(std::string_view source, std::string_view text, std::size_t offset,
                         std::string_view parser_says);

}  // namespace cohort::cluster
