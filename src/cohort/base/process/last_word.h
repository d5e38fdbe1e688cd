#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/unique_fd.h"

namespace cohort {

// Why a task ends, in its own words, for the launcher that looks for the task that began it all.
// The launcher makes a memory file of kLastWordBytes for each task, which the task inherits by
// descriptor (COHORT_LAST_WORD_FD) and writes into; the launcher reads it when the task has ended.
// So a word costs no connection, cannot block, and outlives a process that is killed.
//
// Who writes: run_main() (how its body ended), a group that breaks (which peer it lost; what the
// program does then is not known yet), a session that was left in order. Other programs write
// nothing, and nothing is expected of them.

inline constexpr const char* kLastWordVariable = "COHORT_LAST_WORD_FD";
inline constexpr std::size_t kLastWordBytes = 4096;

struct LastWord {
  enum class Kind {
    none,
    error,      // something of its own went wrong
    lost_peer,  // another task went away, or let it wait too long
    done        // it left its job in order
  };
  enum class Loss { unknown, died, left, aborted, late };

  Kind kind = Kind::none;
  // Of lost_peer.
  std::string peer;  // the task, "worker/1"; "" when it is not known
  Loss loss = Loss::unknown;
  std::string during;  // "all_reduce #17 of 1000 x f32, average"

  std::string message;           // for a person; may have several lines
  std::optional<int> exit_code;  // what main() is about to return; nothing when it goes on
  pid_t pid = -1;                // who wrote it

  bool operator==(const LastWord&) const = default;
};

std::string_view to_string(LastWord::Kind kind);  // "", "error", "lost_peer", "done"

// At most kLastWordBytes; the message is cut first.
std::string encode_last_word(const LastWord& word);
// Kind::none for what is no word: the bytes are another process's, and may be anything.
LastWord decode_last_word(std::string_view bytes);

// --- the task's side: nothing happens in a process that has no launcher's file ---

// Replaces what was said before. Fills in the pid.
void say_last_word(LastWord word) noexcept;
LastWord last_word_so_far() noexcept;
// A group of this task broke since `peer` was lost. The first loss counts: what follows from it
// breaks other groups.
void note_lost_peer(const std::string& peer, LastWord::Loss loss, const std::string& during,
                    const std::string& message) noexcept;
// A new group stands: what broke an earlier one was overcome.
void forget_lost_peer() noexcept;

// --- the launcher's side: makes the file and holds it. Thread-compatible ---
class LastWordOwner {
 public:
  LastWordOwner();  // throws SystemError

  // For the task to inherit, with dup2(): close-on-exec here, valid as long as this object.
  int fd() const { return file_.get(); }

  // What the task said. `task` is its process: the word that another one left about its own end (a
  // child that also is a Cohort program) counts only when it ended with the code that the task
  // ended with.
  LastWord read(pid_t task, std::optional<int> exit_code) const;

 private:
  UniqueFd file_;
};

}  // namespace cohort
