#include "cohort/engine/ssh_server_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/launch/process/process.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServerProgram = "/usr/sbin/sshd";
constexpr std::chrono::seconds kStartTime{20};

sockaddr_in loopback_address(int last, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(0x7f000000U + static_cast<unsigned>(last));
  return address;
}

// A listening socket of 127.0.0.LAST on a port that is free there.
UniqueFd listen_on(int last) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback_address(last, 0);
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 16) != 0)
    throw SystemError("cannot listen on a loopback address", errno);
  return socket;
}

int port_of(const UniqueFd& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

bool answers(int last, int port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback_address(last, port);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void make_key(const fs::path& path) {
  const std::string command =
      fmt::format("ssh-keygen -q -t ed25519 -N '' -f {} > /dev/null", path.string());
  if (std::system(command.c_str()) != 0) throw InvalidInput("ssh-keygen failed");
}

std::string public_key(const fs::path& path) { return read_file(path.string() + ".pub"); }

}  // namespace

std::string SshServer::missing() {
  for (const char* program : {kServerProgram, "/usr/bin/ssh", "/usr/bin/ssh-keygen"})
    if (::access(program, X_OK) != 0)
      return fmt::format("there is no {} (tests/platform/install-servers installs openssh-server)",
                         program);
  return "";
}

SshServer::SshServer() {
  make_keys();
  for (const int node : {1, 2})
    for (const char* folder : {"bin", "tmp"}) fs::create_directories(home(node) / folder);
  silent_ = listen_on(14);
  port_ = port_of(listen_on(11));
  write_configurations();
  start();
}

SshServer::~SshServer() {
  ::kill(server_, SIGTERM);
  while (::waitpid(server_, nullptr, 0) < 0 && errno == EINTR) continue;
  for (const auto& entry : fs::recursive_directory_iterator(scratch_.path()))
    if (entry.is_directory() && !entry.is_symlink())  // sources are read-only
      fs::permissions(entry.path(), fs::perms::owner_all);
}

void SshServer::make_keys() {
  for (const char* name : {"host_key", "other_key", "user_key"}) make_key(scratch_ / name);
  write_file_atomically(scratch_ / "authorized_keys", public_key(scratch_ / "user_key"), 0600);
}

void SshServer::write_configurations() {
  const auto in = [this](const char* name) { return (scratch_ / name).string(); };
  std::string server = fmt::format(
      "Port {}\nListenAddress 127.0.0.11\nListenAddress 127.0.0.12\nHostKey {}\nPidFile none\n"
      "AuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
      "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 1000\n"
      "PrintMotd no\nPrintLastLog no\nX11Forwarding no\n",
      port_, in("host_key"), in("authorized_keys"));
  // Of their own, as on hosts of their own: Open MPI's daemons make the same folder in TMPDIR.
  for (const int node : {1, 2})
    server += fmt::format(
        "Match LocalAddress 127.0.0.1{}\n  SetEnv HOME={} TMPDIR={} "
        "PATH={}:/usr/local/bin:/usr/bin:/bin\n",
        node, home(node).string(), (home(node) / "tmp").string(), (home(node) / "bin").string());
  write_file_atomically(scratch_ / "sshd_config", server);

  std::string known, changed;
  for (const int node : {1, 2})
    known += fmt::format("[127.0.0.1{}]:{} {}", node, port_, public_key(scratch_ / "host_key"));
  changed = fmt::format("[127.0.0.11]:{} {}", port_, public_key(scratch_ / "other_key"));
  write_file_atomically(scratch_ / "known_hosts", known);
  write_file_atomically(scratch_ / "changed_hosts", changed);
  // The key exchange that takes the least time: tests make hundreds.
  write_file_atomically(
      scratch_ / "config",
      fmt::format(
          "Host node2\n  HostName 127.0.0.12\n"
          "Host stranger\n  UserKnownHostsFile /dev/null\n"
          "Host changed\n  UserKnownHostsFile {}\n"
          "Host gone\n  HostName 127.0.0.13\n"
          "Host hangs\n  HostName 127.0.0.14\n  Port {}\n  ConnectTimeout 2\n"
          "Host *\n  HostName 127.0.0.11\n  Port {}\n  IdentityFile {}\n"
          "  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n"
          "  BatchMode yes\n  ConnectTimeout 30\n"
          "  KexAlgorithms curve25519-sha256\n",
          in("changed_hosts"), port_of(silent_), port_, in("user_key"), in("known_hosts")));
}

void SshServer::start() {
  if (::geteuid() == 0) fs::create_directories("/run/sshd");  // sshd refuses to start without it
  const UniqueFd log(::open((scratch_ / "sshd.log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  server_ = launch::spawn(
      {.program = kServerProgram,
       .command = {kServerProgram, "-D", "-e", "-f", (scratch_ / "sshd_config").string()},
       .environment = cluster::Environment::of_this_process(),
       .output = log.get()});
  const auto deadline = Deadline::after(kStartTime);
  while (!answers(11, port_) || !answers(12, port_)) {
    int status = 0;
    if (deadline.expired() || ::waitpid(server_, &status, WNOHANG) == server_)
      throw InvalidInput("sshd does not start: " + read_file(scratch_ / "sshd.log"));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace cohort::engine
