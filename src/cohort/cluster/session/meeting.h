#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cohort/base/crypto/secret.h"
#include "cohort/base/deadline.h"
#include "cohort/base/unique_fd.h"
#include "cohort/cluster/address.h"

// How tasks meet whose launcher tells them their ranks and nothing else (mpirun, srun): rank 0
// hosts the store and leaves a note in a folder of this user's, named after the launch; the others
// read it. Where the job has no secret, rank 0 makes one and leaves it beside the note, in a file
// that only its owner reads. So the note itself need not be trusted: a store that does not know the
// secret is refused. The calls are thread-safe.
namespace cohort::cluster {

// The folder: `given` (COHORT_MEET), else "cohort" in `runtime` (XDG_RUNTIME_DIR) where that is
// set, else /tmp/cohort-UID. Made, with mode 0700, when it is not there. Throws InvalidInput when
// it is no folder, or when other users can write to the default one or own it.
std::filesystem::path meeting_folder(const std::string& given, const std::string& runtime);

// A launch as a file name.
std::string meeting_name(const std::string& launch);

// Rank 0's note, there until this is destroyed. Notes that ended processes of this host left in the
// folder are removed.
class MeetingNote {
 public:
  // `made`: the secret to leave; nothing where the tasks have one of their own. Throws InvalidInput
  // when a process that runs has left a note of that name, SystemError when it cannot be written.
  MeetingNote(const std::filesystem::path& folder, const std::string& name, const Address& store,
              const std::optional<Secret>& made);
  ~MeetingNote();
  MeetingNote(const MeetingNote&) = delete;
  MeetingNote& operator=(const MeetingNote&) = delete;

 private:
  std::filesystem::path note_, secret_;
  std::string text_;
};

struct StoreAccess {
  Address store;
  std::optional<Secret> secret;  // where rank 0 made one
};

// What the note says; nothing while there is none, or one whose process has ended. Throws
// InvalidInput when its secret can be read by others.
std::optional<StoreAccess> read_meeting_note(const std::filesystem::path& folder,
                                             const std::string& name);

// Tells when to look for a note again. Confined to one thread.
class MeetingWatch {
 public:
  explicit MeetingWatch(const std::filesystem::path& folder);
  // Returns when something has come into the folder since this was made or last asked, at the
  // latest after a tenth of a second (a folder on a server changes without a word) or at the
  // deadline.
  void await_change(Deadline deadline);

 private:
  UniqueFd events_;
};

}  // namespace cohort::cluster
