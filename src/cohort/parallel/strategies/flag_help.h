#pragma once

#include <string>
#include <vector>

// What the flags of flags.h and server_flags.h have in common. Pure functions and values.
namespace cohort::parallel {

// One flag, for a program's own --help.
struct FlagHelp {
  std::string name;     // "--num_gpus"
  std::string metavar;  // "N"; empty: it needs no value
  std::string description;
};

// Throws InvalidInput: "--device is 'gpu'. Give one of cpu, cuda."
[[noreturn]] void refuse_flag(const std::string& flag, const std::string& value,
                              const std::string& allowed);

// `value`, where it is one of `allowed`; refuses it otherwise.
std::string choose_flag(const std::string& flag, const std::string& value,
                        const std::vector<std::string>& allowed);

// A number from `least` to `most`; refuses anything else.
int count_flag(const std::string& flag, const std::string& value, int least, int most);

}  // namespace cohort::parallel
