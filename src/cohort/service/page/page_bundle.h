#pragma once

#include <string_view>
#include <vector>

namespace cohort::service {

// A file of the page as this program holds it.
struct BundledFile {
  std::string_view path;  // "/assets/app-3f9a.js"
  std::string_view bytes;
  std::string_view gzip;  // the same, compressed
};

// All of them. "/index.html" is one.
const std::vector<BundledFile>& page_bundle();

}  // namespace cohort::service
