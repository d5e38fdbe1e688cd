#pragma once

#include <string>
#include <string_view>

namespace cohort::jobspec {

// Refuses text whose tables and lists would nest so deeply that the parser, which recurses, could
// use up the stack. Throws InvalidInput that names the line. Knows strings and comments; leaves all
// else to the parser. Pure.
void require_shallow_toml(std::string_view text, const std::string& name);

}  // namespace cohort::jobspec
