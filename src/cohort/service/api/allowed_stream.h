#pragma once

#include <functional>
#include <memory>

#include "cohort/base/net/http_stream.h"

namespace cohort::service {

// The stream, broken off within a second after `is_allowed` says no: the token that it was asked
// with was removed or replaced, or has expired. A reader sees a body without its end.
std::unique_ptr<BodyStream> while_allowed(std::unique_ptr<BodyStream> stream,
                                          std::function<bool()> is_allowed);

}  // namespace cohort::service
