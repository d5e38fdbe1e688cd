#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "cohort/base/files/scratch_folder_test.h"

namespace cohort::train {

inline void put(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace cohort::train
