#pragma once

#include <cstdint>
#include <memory>

#include "cohort/base/net/http_stream.h"
#include "cohort/base/unique_fd.h"

namespace cohort {

// `size` bytes of a regular file from `offset` on, as the body of an answer. One that turns out to
// be shorter is broken off.
std::unique_ptr<BodyStream> make_file_stream(UniqueFd file, std::uint64_t offset,
                                             std::uint64_t size);

}  // namespace cohort
