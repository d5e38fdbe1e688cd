#include "cohort/launch/remote/remote_shell.h"

#include <filesystem>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::launch {

std::vector<std::string> split_shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (escapes) {
      word += text[++i];
      in_word = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0)
    throw InvalidInput(fmt::format("a {} in '{}' is not closed", quote, text),
                       {.advice = "Close the quote, or put a \\ before it."});
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> RemoteShell::command(const std::string& host) const {
  std::vector<std::string> command = words;
  command.insert(command.end(), {host, cohort, "host-task"});
  return command;
}

RemoteShell parse_remote_shell(std::string_view shell, const std::string& cohort) {
  RemoteShell result{.words = split_shell_words(shell), .cohort = cohort};
  if (result.words.empty() || result.words.front().empty())
    throw InvalidInput("--remote-shell names no program",
                       {.advice = fmt::format("Leave it out for: {}", kDefaultRemoteShell)});
  if (cohort.empty()) {
    std::error_code code;
    result.cohort = std::filesystem::read_symlink("/proc/self/exe", code).string();
    if (code) throw SystemError("cannot tell where this program lies", code.value());
  }
  if (shell_quote(result.cohort) != result.cohort)
    throw InvalidInput(
        fmt::format("'{}', where cohort lies on the other hosts, would be taken apart by a shell",
                    result.cohort),
        {.advice = "Give a path without blanks and special characters with --remote-cohort."});
  return result;
}

std::string remote_failure(const RemoteShell& shell, const std::string& host, int exit_code,
                           std::string_view said) {
  constexpr int kNotFound = 127, kNotRunnable = 126, kShellFailed = 255;
  const auto has = [&](std::string_view words) { return said.find(words) != said.npos; };
  const std::string_view text = trim(said);
  const std::string last = escape_controls(trim(text.substr(text.rfind('\n') + 1)));
  if (exit_code == kNotFound || exit_code == kNotRunnable)
    return fmt::format(
        "it has no program '{}' (install the same version of Cohort there, or say where it lies "
        "with --remote-cohort)",
        shell.cohort);
  if (exit_code != kShellFailed) return last.empty() ? "it gave no answer" : last;
  if (has("HOST IDENTIFICATION HAS CHANGED"))
    return fmt::format(
        "its host key is not the one that is known (if the host was set up anew, remove the old "
        "key "
        "with `ssh-keygen -R {0}`, then compare and accept the new one with `{1} {0} true`)",
        host, shell.words.front());
  if (has("Host key verification failed"))
    return fmt::format(
        "its host key is not known here (compare and accept it once with `{} {} true`)",
        shell.words.front(), host);
  if (has("Permission denied"))
    return fmt::format(
        "it refuses this user's keys: {} (add your public key there: ssh-copy-id {})", last, host);
  return fmt::format("it cannot be reached{}{}", last.empty() ? "" : ": ", last);
}

}  // namespace cohort::launch
