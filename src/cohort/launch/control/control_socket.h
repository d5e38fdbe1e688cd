#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/net/acceptor.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/unique_fd.h"

namespace cohort::launch {

// Where a launcher takes questions and requests about its job: a Unix socket for its own user (and
// root), one JSON object a line each way (control_answers.h). It lies in XDG_RUNTIME_DIR or the
// system's folder for temporary files, since a path below the output folder may be too long for a
// socket; job.json names it.
//
// A client cannot hurt: a line of more than kLongestLine ends the connection, as does
// silence for kSilence; more than kMostClients are not let in; answers wait for a slow reader
// without anybody waiting for them.
//
// Confined to the loop's thread; `loop` must outlive it. The constructor throws SystemError. The
// destructor removes the socket; a guard does so for a launcher that was killed.
class ControlSocket {
 public:
  static constexpr std::size_t kLongestLine = 64 * 1024;
  static constexpr std::size_t kMostClients = 32;
  static constexpr std::chrono::seconds kSilence{60};

  // Answers one line (both without their end). Must not throw.
  using Handler = std::function<std::string(std::string_view line)>;

  // A new path that no other process has.
  static std::filesystem::path new_path();

  ControlSocket(std::filesystem::path path, EventLoop& loop, Handler handler);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;
  ~ControlSocket();

  const std::filesystem::path& path() const { return path_; }

 private:
  struct Client {
    UniqueFd fd;
    std::string input;   // an unfinished line
    std::string output;  // not written yet
    EventLoop::TimerId timer = 0;
  };
  void add(UniqueFd fd);
  void serve(int fd);
  bool read(Client& client);
  bool answer(Client& client);
  bool write(Client& client);
  void close(int fd);
  void restart_timer(int fd, Client& client);

  std::filesystem::path path_;
  EventLoop& loop_;
  Handler handler_;
  std::optional<Acceptor> acceptor_;
  std::map<int, Client> clients_;
};

// The user at the other end of a Unix socket. Throws SystemError.
uid_t peer_user(int fd);

}  // namespace cohort::launch
