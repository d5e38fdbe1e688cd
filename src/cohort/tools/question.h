#pragma once

#include <string>
#include <string_view>

// Questions to the person at the terminal.
namespace cohort::tools {

// Whether there is one: standard input and standard error are a terminal.
bool can_ask();

// Asks on standard error until the answer begins with one of `letters`, and returns that letter. An
// empty answer, the end of the input and Ctrl-C are the last of them. "Delete?" is asked as
// "Delete? [y/n] ".
char ask_person(const std::string& question, std::string_view letters);

}  // namespace cohort::tools
