#pragma once

#include <string>
#include <string_view>

namespace cohort::jobspec {

// Refuses text that the parser is not made for: tables and lists that nest so deeply that it, which
// recurses, could use up the stack; and a list that '}' ends, which it takes for impossible. Throws
// InvalidInput that names the line. Knows strings and comments; leaves all else to the parser. Pure.
void require_shallow_toml(std::string_view text, const std::string& name);

}  // namespace cohort::jobspec
