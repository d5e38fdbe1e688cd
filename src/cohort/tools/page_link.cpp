#include "cohort/tools/page_link.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "cohort/sdk/service_calls.h"

namespace cohort::tools {
namespace {

bool has_display() {
  for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY"})
    if (const char* value = std::getenv(name); value && *value) return true;
  return false;
}

}  // namespace

std::string page_link(sdk::ServiceClient& client, const std::string& path) {
  const sdk::ServiceAddress& address = client.address();
  const std::string base = address.socket.empty() ? address.to_string() : client.page_address();
  const std::string link = base + client.sign_in_path();
  return path == "/" ? link : link + "&" + sdk::target({}, {{"next", path}}).substr(1);
}

bool open_in_browser(const std::string& link) {
  if (!has_display()) return false;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  // The shell ends at once; the browser has no parent that waits for it.
  std::string words[] = {"sh", "-c", "command -v xdg-open || exit 1; xdg-open \"$0\" &", link};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, "/bin/sh", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return false;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace cohort::tools
