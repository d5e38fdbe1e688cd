#pragma once

#include <filesystem>
#include <string>

namespace cohort::engine {

// Starts `COHORT attempt FOLDER` as a process of its own: another session, no parent, no terminal,
// standard error in FOLDER/supervisor.log. Returns when it has said whether it made the claim, or
// has ended, after 2 s at most; then it may still be on its way. For any thread of any program.
// Throws SystemError when it cannot be started.
void start_supervisor(const std::filesystem::path& cohort, const std::filesystem::path& folder);

// Sends SIGTERM to the process of that identity (base/process/process.h), and to no other that got
// its number since. One that has ended is left alone.
void ask_to_stop(const std::string& identity);

// The file of the program that runs now. Throws SystemError.
std::filesystem::path this_program();

}  // namespace cohort::engine
