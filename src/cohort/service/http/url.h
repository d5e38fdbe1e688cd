#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The parts of a request's target. Pure.
namespace cohort::service {

// "%2F" -> "/". Nothing for a % without two hexadecimal digits, and for a byte 0.
std::optional<std::string> percent_decoded(std::string_view text);

// What stands behind the '?'.
class Query {
 public:
  // Throws ApiError (400) for what cannot be decoded, and for more than 256 parameters.
  explicit Query(std::string_view text);

  // Throws ApiError (400) that names one of the query that is none of these, and the nearest one.
  void require_only(std::initializer_list<std::string_view> names) const;

  // "" when it is not there. Throws ApiError (400) when it is there twice.
  std::string get(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;  // as often as it is there
  bool flag(std::string_view name) const;  // "0" or "1", else ApiError (400); not there: false
  // Throws ApiError (400) unless the value is a whole number from `least` to `most`.
  std::int64_t number(std::string_view name, std::int64_t otherwise, std::int64_t least,
                      std::int64_t most) const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace cohort::service
