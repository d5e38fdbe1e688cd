#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cohort/base/net/http_message.h"

// What comes in as JSON. Pure. All throw ApiError (400) that names the field.
namespace cohort::service {

constexpr int kMostJsonLevels = 32;
constexpr std::size_t kMostJsonFields = 1000;    // of one object: each is compared with the others
constexpr std::size_t kMostJsonValues = 20'000;  // all together

// Within these limits, and no field of any object twice: an object with no other fields than `known`, in the order in which they were written.
nlohmann::ordered_json parse_body(std::string_view body, const std::vector<std::string>& known);

std::string text_field(const nlohmann::ordered_json& body, const char* name);  // "": not there
int number_field(const nlohmann::ordered_json& body, const char* name, int least, int most,
                 int otherwise);
int number_field(const nlohmann::ordered_json& body, const char* name, int least, int most);

}  // namespace cohort::service
