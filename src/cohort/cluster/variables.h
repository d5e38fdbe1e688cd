#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cohort/cluster/address.h"
#include "cohort/cluster/environment.h"

// Reading and writing single environment variables, for the dialects. Pure functions; each error is
// an InvalidInput that names the variable and its value.
namespace cohort::cluster {

// The value without surrounding space; nothing when the variable is unset or blank.
std::optional<std::string> read_text(const Environment& environment, std::string_view name);

// The largest index, rank or count that is taken at its word: sums of two still fit an int.
inline constexpr int kMaxNumber = 1 << 30;

// A whole number from `least` to kMaxNumber.
std::optional<int> read_number(const Environment& environment, std::string_view name,
                               int least = 0);
int parse_number(std::string_view name, std::string_view text, int least = 0);

std::optional<Address> read_address(const Environment& environment, std::string_view name);
// An address given as two variables; nothing unless both are set.
std::optional<Address> read_host_and_port(const Environment& environment,
                                          std::string_view host_name, std::string_view port_name);

// "" removes the variable, so that an inherited value does not survive.
void write_text(Environment& environment, std::string_view name, std::string_view value);
void write_number(Environment& environment, std::string_view name, int value);
void erase(Environment& environment, std::string_view name);

}  // namespace cohort::cluster
