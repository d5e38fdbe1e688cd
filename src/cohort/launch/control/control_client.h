#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cohort/base/deadline.h"

namespace cohort::launch {

// Asks the launcher whose control socket is at `socket` one thing and returns its answer, both one
// line of JSON without its end. Throws PeerError when there is no launcher of this user (or root);
// a socket that a killed one left is then removed. Throws TimeoutError and SystemError when there
// is one that cannot be asked: too many ask already, or it does not answer.
std::string ask_launcher(const std::filesystem::path& socket, std::string_view request,
                         Deadline deadline);

}  // namespace cohort::launch
