#pragma once

#include <functional>
#include <string_view>

#include "cohort/engine/engine.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/jobs/job_operations.h"
#include "cohort/service/store/background.h"
#include "cohort/service/store/tokens.h"

namespace cohort::service {

// What the handlers of the API work with, all on the HTTP server's thread. Outlives the server,
// whose streams refer to it.
struct ApiContext {
  RunFolders folders;
  JobOperations& operations;
  RunStore& store;  // that of `operations`
  Tokens tokens;
  Background& background;
  jobspec::KnownOptions options;
  std::function<const engine::Engine*(std::string_view name)> engine;  // null: none of this name
  std::function<jobspec::Size()> machine;
  std::function<jobspec::Size()> free;
  std::function<void()> touch;                           // the service is being used
  std::function<bool()> has_root = [] { return true; };  // the folder of the run store is there
};

}  // namespace cohort::service
