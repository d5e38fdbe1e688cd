#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "cohort/engine/engine.h"
#include "cohort/jobspec/spec_json.h"
#include "cohort/service/jobs/job_operations.h"
#include "cohort/service/page/page_files.h"
#include "cohort/service/page/sessions.h"
#include "cohort/service/store/background.h"
#include "cohort/service/store/store_readers.h"

namespace cohort::service {

// What the handlers of the API work with, all on the HTTP server's thread. Outlives the server,
// whose streams refer to it.
struct ApiContext {
  RunFolders folders;
  JobOperations& operations;
  RunStore& store;  // that of `operations`
  Tokens tokens;
  Sessions sessions;
  Background& background;
  jobspec::KnownOptions options;
  std::function<const engine::Engine*(std::string_view name)> engine;  // null: none of this name
  std::function<jobspec::Size()> machine;
  std::function<jobspec::Size()> free;
  std::function<std::vector<std::string>()> line;        // the first jobs of the queue, by id
  std::shared_ptr<StoreReaders> readers;                 // for what is read in the background
  std::function<void()> touch;                           // the service is being used
  std::function<bool()> has_root = [] { return true; };  // the folder of the run store is there
  PageFiles page = PageFiles();
  // Where the page can be reached from this machine, "http://127.0.0.1:41234"; listens there first
  // when it is nowhere. Throws SystemError.
  std::function<std::string()> page_address = {};
};

}  // namespace cohort::service
