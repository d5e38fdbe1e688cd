#pragma once

#include <string_view>

namespace cohort::service {

// openapi.json of this folder, as it was when the program was built.
std::string_view openapi_document();

}  // namespace cohort::service
