#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/jobspec/resolved_job.h"

namespace cohort::jobspec {

// What (framework, version, python) stands for on this machine.
struct CatalogueEnvironment {
  std::string framework;
  std::string version;  // "1.14.0", or "1.14" for all of them; "": any
  std::string python;   // "py3", "py37", "3.11"; "": any
  RuntimeEnvironment::Kind kind = RuntimeEnvironment::Kind::venv;
  std::string place;  // the folder of the virtual environment, or the image
};

// Names of instance types and environments that a site knows. A value; reading is all that touches
// the machine.
struct Catalogues {
  std::map<std::string, Size> instance_types;
  std::vector<CatalogueEnvironment> environments;
};

// A catalogue file:
//   [instance_types]
//   "ml.m5.large" = "2x8g"
//   [[environments]]
//   framework = "tensorflow"
//   version = "1.14.0"
//   python = "py37"
//   venv = "/opt/venvs/tf-1.14"        # or: image = "registry/tensorflow:1.14"
// Throws InvalidInput that names `source` and the line. Pure.
Catalogues parse_catalogue(std::string_view text, const std::string& source);

// What is shipped: the common names of SageMaker's and TI's instance types.
const Catalogues& shipped_catalogue();

// The shipped one, with ROOT/catalogue.toml and the file of COHORT_CATALOGUE on top of it, where
// they are; the later one wins, and its environments are looked at first. `root` may be empty.
Catalogues read_catalogues(const std::filesystem::path& root);

}  // namespace cohort::jobspec
