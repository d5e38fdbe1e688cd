#pragma once

#include <filesystem>
#include <string>

#include "cohort/base/unique_fd.h"
#include "cohort/service/store/run_store.h"

// The files of a running service in its root folder: service.lock, service.json.
namespace cohort::service {

// Makes the folder (0700) unless it is there. Throws InvalidInput when it is not this user's own.
void open_root(const RunFolders& folders);

// One service at a time works with a root. Held as long as the descriptor is open. Throws
// InvalidInput that names the process which has it.
UniqueFd lock_root(const RunFolders& folders);

// Whether the root is still the folder that was locked: false when it was removed or replaced.
bool has_root(const RunFolders& folders, const UniqueFd& lock);

// Where the service's Unix socket goes: in the root, or, where that path is too long for a socket,
// in a folder of this user's own (0700) below XDG_RUNTIME_DIR or the temporary folder.
std::filesystem::path socket_path(const RunFolders& folders);

// service.json (0600), by which clients find the service; gone with this object.
class ServiceRecord {
 public:
  // `listen`: "https://host:port"; "": the Unix socket only.
  ServiceRecord(const RunFolders& folders, const std::filesystem::path& socket,
                const std::string& listen);
  ~ServiceRecord();
  ServiceRecord(const ServiceRecord&) = delete;
  ServiceRecord& operator=(const ServiceRecord&) = delete;

 private:
  std::filesystem::path path_;
};

}  // namespace cohort::service
