#include "bench/ps/job.h"

#include <sys/mman.h>
#include <time.h>

#include <fstream>
#include <thread>

#include "cohort/base/net/socket.h"
#include "cohort/base/process/limits.h"
#include "cohort/ps/server/server.h"

namespace cohort::bench {

namespace {

std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

// Ports that are free now, all different.
std::vector<cluster::Address> free_addresses(int count) {
  std::vector<UniqueFd> listeners;
  std::vector<cluster::Address> addresses;
  for (int i = 0; i < count; ++i) {
    listeners.push_back(listen_on(Endpoint::tcp("127.0.0.1", 0)));
    addresses.push_back({"127.0.0.1", local_endpoint(listeners.back().get()).port()});
  }
  return addresses;
}

}  // namespace

Job::Job(JobOptions options)
    : options_(options),
      secret_(Secret::generate()),
      id_(fmt::format("bench-{}-{}", ::getpid(),
                      std::chrono::steady_clock::now().time_since_epoch().count())),
      addresses_(free_addresses(options.servers)) {
  raise_file_limit(1024);
  if (options_.durability == ps::Durability::disk) {
    folder_ = build_folder() / "bench" / id_;
    std::filesystem::create_directories(folder_);
  }
  if (options_.durability == ps::Durability::process)
    for (int i = 0; i < options_.servers; ++i)
      memory_.emplace_back(::memfd_create("ps_bench", MFD_CLOEXEC));
  Pipe ready;
  for (int i = 0; i < options_.servers; ++i)
    servers_.push_back(fork_process(kProgram, [&, i] { serve(i, ready); }));
  ready.out.reset();
  for (int i = 0; i < options_.servers; ++i)
    if (char byte = 0; !ready.read(byte)) throw Error("a server did not start");
}

Job::~Job() {
  for (const std::vector<pid_t>* processes : {&workers_, &servers_})
    for (const pid_t process : *processes) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void Job::serve(int index, Pipe& ready) {
  end_.out.reset();
  ps::ServerOptions options;
  options.server = index;
  options.servers = addresses_;
  options.job = id_;
  options.secret = secret_;
  options.durability = options_.durability;
  if (!memory_.empty()) options.memory = std::move(memory_[static_cast<std::size_t>(index)]);
  if (!folder_.empty()) options.folder = folder_ / std::to_string(index);
  ps::Server server(std::move(options));
  ready.write('r');
  ready.out.reset();
  std::thread ending([&] {
    char byte = 0;
    end_.read(byte);  // returns when the benchmark closes its end
    server.finish();
  });
  server.run();
  ending.join();
}

ps::ClientOptions Job::client_options(int worker) const {
  ps::ClientOptions options;
  options.worker = worker;
  options.workers = options_.workers;
  options.chief = worker == 0;
  options.servers = addresses_;
  options.job = id_;
  options.secret = secret_;
  options.shared_memory = options_.shared_memory;
  return options;
}

void Job::start_worker(int worker, const std::function<void(ps::Client&)>& body) {
  workers_.push_back(fork_process(kProgram, [&, worker] {
    auto client = ps::Client::connect(client_options(worker), soon());
    body(*client);
    client->leave(soon());
  }));
}

void Job::finish() {
  while (!workers_.empty()) {
    const pid_t process = workers_.back();
    workers_.pop_back();
    expect_success(process);
  }
  end_.out.reset();
  while (!servers_.empty()) {
    const pid_t process = servers_.back();
    servers_.pop_back();
    expect_success(process);
  }
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds(pid_t process) {
  clockid_t clock;
  timespec time{};
  if (const int error = ::clock_getcpuclockid(process, &clock); error != 0)
    throw SystemError("cannot find the clock of a process", error);
  if (::clock_gettime(clock, &time) != 0) throw SystemError("cannot read a clock", errno);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::uint64_t memory_kib(pid_t process, const char* file, const std::string& name) {
  std::ifstream lines(fmt::format("/proc/{}/{}", process, file));
  for (std::string word; lines >> word;)
    if (std::uint64_t kib = 0; word == name && lines >> kib) return kib;
  throw Error(fmt::format("/proc/{}/{} has no {}", process, file, name));
}

}  // namespace cohort::bench
