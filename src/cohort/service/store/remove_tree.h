#pragma once

#include <filesystem>

namespace cohort::service {

// Removes a folder or file with all below it, also where folders are read-only, and however deep
// they lie in each other: some tens of descriptors are open at a time. Follows no symbolic links.
// Nothing there: nothing happens. Throws SystemError; as much as could be is gone then.
void remove_tree(const std::filesystem::path& path);

}  // namespace cohort::service
