#pragma once

#include <optional>

#include "cohort/service/store/run_store.h"

// The port of 127.0.0.1 on which a service without --listen showed its page last: ROOT/page-port. The
// next service takes the same one where it can, so that pages that are open find it again.
namespace cohort::service {

std::optional<int> last_page_port(const RunFolders& folders);
void keep_page_port(const RunFolders& folders, int port);  // throws SystemError

}  // namespace cohort::service
