#pragma once

#include <string>
#include <vector>

#include "cohort/base/net/http_message.h"

namespace cohort::service {

// Keeps pages of other origins out, also those whose name was made to point here (DNS rebinding):
// over TCP the Host is an IP address, localhost or one of `names`; an Origin is this Host's own.
// A Unix socket, which no page reaches, may name any host. Throws ApiError (400, 403).
// What holds no data, the page itself, may be linked from elsewhere: only its Host counts.
void require_own_host(const HttpRequest& request, const std::vector<std::string>& names);
void require_own_origin(const HttpRequest& request, const std::vector<std::string>& names);

}  // namespace cohort::service
