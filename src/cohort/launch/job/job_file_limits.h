#pragma once

#include <filesystem>
#include <string_view>

namespace cohort::launch {

// Refuses text whose tables and lists would nest so deeply that the parser, which recurses, could
// use up the stack. Throws InvalidInput that names the line. Knows strings and comments; leaves all
// else to the parser. Pure.
void require_shallow_toml(std::string_view text, const std::filesystem::path& path);

}  // namespace cohort::launch
