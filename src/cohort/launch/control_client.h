#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"

namespace cohort::launch {

// Asks the launcher whose control socket is at `socket` one thing and returns its answer, both one
// line of JSON without its end. Throws PeerError when no launcher of this user (or root) answers
// there, TimeoutError.
std::string ask_launcher(const std::filesystem::path& socket, std::string_view request,
                         Deadline deadline);

}  // namespace cohort::launch
