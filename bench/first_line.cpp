// A task that does nothing but say when its main() began, on the clock that all processes share.
#include <unistd.h>

#include <cstdio>
#include <ctime>

int main() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  char line[64];
  int length = std::snprintf(line, sizeof line, "main-began %lld.%09ld\n",
                             static_cast<long long>(now.tv_sec), now.tv_nsec);
  return ::write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length ? 0 : 1;
}
