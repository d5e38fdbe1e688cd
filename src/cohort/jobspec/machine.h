#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cohort/jobspec/resolved_job.h"

namespace cohort::jobspec {

// What a job will run on.
struct Machine {
  Size size;      // of this machine, or of one host
  int hosts = 1;  // how many machines of that size the engine has
  // The version of a Python package that the python3 at hand has, of Python itself for "python"; ""
  // when there is none. runtime_probe.h has one. Empty: versions are not compared.
  std::function<std::string(std::string_view package)> version_at_hand;
  // Other jobs run there, too: an instance is held to its size, whether that was asked for or not.
  bool is_shared = true;
  // The same of the virtual environment in a folder.
  std::function<std::string(std::string_view package, const std::string& venv)> version_in_venv =
      {};
};

}  // namespace cohort::jobspec
