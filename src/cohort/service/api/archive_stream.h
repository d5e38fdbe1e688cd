#pragma once

#include <memory>
#include <vector>

#include "cohort/base/net/http_stream.h"
#include "cohort/service/http/confined_files.h"

namespace cohort::service {

// The folders, regular files and relative links below the roots as a tar file, made while it is
// sent: one piece of one file is in memory. A file that grows meanwhile is cut, one that shrinks is
// filled with zeros.
std::unique_ptr<BodyStream> archive_stream(std::vector<FileRoot> roots);

}  // namespace cohort::service
