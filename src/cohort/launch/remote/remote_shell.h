#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::launch {

// A cut connection ends this ssh within about ten seconds; it never asks for a password.
inline constexpr const char* kDefaultRemoteShell =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=3";

// The words of a command as a POSIX shell would find them: blanks separate, quotes of either kind
// and backslashes quote; nothing is expanded. Throws InvalidInput for a quote that does not end.
std::vector<std::string> split_shell_words(std::string_view text);

// How a program is started on another host: `WORDS... HOST COHORT host-task`. Whatever runs a
// command there, hands it standard input and output, and ends with its exit code will do.
struct RemoteShell {
  std::vector<std::string> words;
  std::string cohort;  // where `cohort` lies there

  // The whole command line for a task on `host`.
  std::vector<std::string> command(const std::string& host) const;
};

// `shell` as --remote-shell gives it; `cohort` as --remote-cohort does, "": the path of the program
// that runs now. Throws InvalidInput when it has no words, or when the path holds what a shell
// would take apart (some remote shells hand the command to one, others do not).
RemoteShell parse_remote_shell(std::string_view shell, const std::string& cohort);

// Why a command on `host` failed, and what to do about it, from the remote shell's exit code and
// what came from it: a sentence without the host's name. Knows the words of OpenSSH; others are
// repeated, the last line of them.
std::string remote_failure(const RemoteShell& shell, const std::string& host, int exit_code,
                           std::string_view said);

}  // namespace cohort::launch
