#pragma once

#include <string>

#include "cohort/sdk/service_client.h"

namespace cohort::tools {

// A link that signs a browser in, once and within a minute, and shows `path` ("/", "/jobs/ID") of the
// page of that service.
std::string page_link(sdk::ServiceClient& client, const std::string& path);

// Starts the desktop's browser on the link and does not wait for it. False: there is no display, or
// no xdg-open.
bool open_in_browser(const std::string& link);

}  // namespace cohort::tools
