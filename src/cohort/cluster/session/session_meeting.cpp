// How the tasks of a session meet that know their ranks only.
#include <unistd.h>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/process/process.h"
#include "cohort/cluster/session/session.h"

namespace cohort::cluster {
namespace {

constexpr auto kQuietWait = std::chrono::seconds(2);
// How long a store may take to answer before the note that named it is read again: it may be a
// killed job's, on another host.
constexpr auto kTryStore = std::chrono::seconds(2);
constexpr int kLastPort = 65535;

// The port next to the master's, which belongs to torch.
Address store_beside(Address master) {
  master.port += master.port == kLastPort ? -1 : 1;
  return master;
}

std::string cache_folder(const std::filesystem::path& home) {
  const auto folder = home / ".cache";
  std::error_code code;  // the folder in it cannot be made then, and that is said
  std::filesystem::create_directories(folder, code);
  return folder.string();
}

}  // namespace

void Session::meet(const SessionOptions& options) {
  if (!role_.size_known)
    throw InvalidInput(
        fmt::format("{} tells that at least {} tasks take part, but not where their store is",
                    role_.dialect, role_.size),
        {.advice = "Start the job with `cohort run`, or set TF_CONFIG for every task."});
  store_host_ = name_of({TaskType::worker, 0});
  const bool one_host = role_.local_size == role_.size;
  const bool at_home = !one_host && !role_.master && options.meeting_folder.empty() &&
                       role_.dialect == "Slurm" && !options.home_folder.empty();
  if (one_host || at_home || !options.meeting_folder.empty()) {
    const auto folder =
        meeting_folder(options.meeting_folder,
                       at_home ? cache_folder(options.home_folder) : options.runtime_folder);
    return role_.rank == 0 ? host_meeting(folder, options) : find_meeting(folder, options);
  }
  if (!role_.master)
    throw InvalidInput(
        fmt::format("{} tells that {} tasks take part on several hosts, but not where they meet",
                    role_.dialect, role_.size),
        {.advice = "Set COHORT_MEET=DIR to a folder that all hosts share, or MASTER_ADDR and "
                   "MASTER_PORT to rank 0's host and a free port, or COHORT_STORE."});
  const Address store = store_beside(*role_.master);
  return role_.rank == 0 ? host_store(store, options) : connect(store, options);
}

// Tasks of a launcher that has no name for the launch are taken to have one parent.
std::string Session::meeting_id() const {
  std::string id = role_.launch + role_.job;
  if (id.empty()) id = process_identity(::getppid());
  return meeting_name(fmt::format("{}-{}-{}", role_.dialect, id, role_.attempt));
}

void Session::host_meeting(const std::filesystem::path& folder, SessionOptions options) {
  const bool one_host = role_.local_size == role_.size;
  std::optional<Secret> made;
  if (!options.secret) options.secret = made = Secret::generate();
  secret_ = options.secret;
  server_ = std::make_unique<StoreServer>(
      StoreServerOptions{.bind = {one_host ? "127.0.0.1" : "", 0}, .secret = secret_});
  const int port = server_->address().port;
  note_ = std::make_unique<MeetingNote>(folder, meeting_id(),
                                        Address{one_host ? "127.0.0.1" : host_name(), port}, made);
  connect({"127.0.0.1", port}, options);
}

void Session::find_meeting(const std::filesystem::path& folder, SessionOptions options) {
  const Deadline deadline = Deadline::after(options.timeout);
  const auto quiet_until = Deadline::after(kQuietWait);
  const std::string name = meeting_id();
  const bool has_secret = options.secret.has_value();
  std::string problem = fmt::format("there is no note '{}' in '{}'", name, folder.string());
  bool said = false;
  MeetingWatch watch(folder);
  while (true) {
    if (const auto place = read_meeting_note(folder, name)) {
      if (place->secret.has_value() == has_secret)
        throw InvalidInput(
            fmt::format("{} has {} of the job, and {} has {}", store_host_,
                        has_secret ? "no secret" : "a secret", name_, has_secret ? "one" : "none"),
            {.advice = "Give every task the same COHORT_SECRET_FILE=FILE, or none."});
      if (!has_secret) options.secret = place->secret;
      try {
        const auto soon = std::min(deadline.when(), Deadline::Clock::now() + kTryStore);
        options.timeout =
            std::chrono::ceil<std::chrono::milliseconds>(soon - Deadline::Clock::now());
        connect(place->store, options);
        secret_ = options.secret;
        return;
      } catch (const TimeoutError& error) {
        problem = error.message();
      } catch (const PeerError& error) {
        problem = error.message();
      } catch (const AuthError& error) {
        problem = error.message();
      }
    }
    client_.reset();
    if (deadline.expired())
      throw TimeoutError(
          fmt::format("{} did not find {}, which hosts the job's store: {}", name_, store_host_,
                      problem),
          {.advice =
               "Look whether rank 0 was started. Tasks that a shell starts one by one need "
               "the same COHORT_JOB. On several hosts the folder must be one that they share: "
               "COHORT_MEET=DIR names another."});
    if (!said && quiet_until.expired()) {
      log::info("{} waits for {}, which hosts the job's store: {}", name_, store_host_, problem);
      said = true;
    }
    watch.await_change(deadline);
  }
}

}  // namespace cohort::cluster
