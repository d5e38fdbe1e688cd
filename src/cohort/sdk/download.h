#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "cohort/sdk/service_client.h"

namespace cohort::sdk {

struct Downloaded {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  int left_out = 0;  // links
};

// Copies the files of a part ("model", "output", "all") of a job into `folder`, below which they lie
// as in ServiceClient::files(). Once the job has ended, every file that the service lists must have
// come whole: else Error. `progress` is told the bytes until now and in all.
Downloaded download_files(
    ServiceClient& client, const std::string& job, const std::string& part,
    const std::filesystem::path& folder,
    const std::function<void(std::uint64_t bytes, std::uint64_t all)>& progress = {});

}  // namespace cohort::sdk
