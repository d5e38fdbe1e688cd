#include "cohort/cluster/session/session.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/log/line_output.h"
#include "cohort/base/log/log.h"
#include "cohort/base/net/endpoint.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/text.h"
#include "cohort/cluster/dialects/cluster_json.h"

namespace cohort::cluster {
namespace {

// A task that has waited this long for the chief says so: silence looks like a hang.
constexpr auto kQuietConnect = std::chrono::seconds(2);

// The address to bind for a cluster address: the host itself where it is one of this machine's,
// else every interface. A name may stand for a service in front of us, or, as Debian's /etc/hosts
// has it, for a loopback address that others cannot reach.
std::string bind_host(const std::string& host) {
  if (is_loopback(host)) return host;
  try {
    auto addresses = resolve(Endpoint::tcp(host, 0), Deadline::after(std::chrono::seconds(10)));
    if (!addresses.front().is_loopback()) {
      listen_on(addresses.front().endpoint());
      return host;
    }
  } catch (const Error& error) {
    log::debug("binding to every interface: {}", error.what());
  }
  return "";
}

void require_secret(const Address& store, const SessionOptions& options) {
  if (options.secret || options.insecure || is_loopback(store.host)) return;
  throw InvalidInput(
      fmt::format("the store at {} can be reached from the network, and this job has no secret",
                  to_string(store)),
      {.advice = "Give every task the same COHORT_SECRET_FILE=FILE (made with: umask 077; openssl "
                 "rand -hex 32 > FILE), or accept the risk with COHORT_INSECURE=1."});
}

// The tasks that every TF_CONFIG of the job lists; the evaluator need not be in it.
std::vector<TaskId> listed_tasks(const ClusterSpec& cluster) {
  auto tasks = cluster.tasks();
  std::erase_if(tasks, [](const TaskId& task) { return task.type == TaskType::evaluator; });
  return tasks;
}

}  // namespace

SessionOptions SessionOptions::from(const Environment& environment) {
  SessionOptions options;
  options.secret = Secret::from_variables(environment.find_value("COHORT_SECRET_FD"),
                                          environment.find_value("COHORT_SECRET_FILE"));
  std::string insecure = environment.find_value("COHORT_INSECURE").value_or("");
  if (insecure != "" && insecure != "0" && insecure != "1")
    throw InvalidInput(fmt::format("COHORT_INSECURE is '{}'", insecure),
                       {.advice = "Set it to 1 or 0."});
  options.insecure = insecure == "1";
  options.meeting_folder = environment.find_value("COHORT_MEET").value_or("");
  options.runtime_folder = environment.find_value("XDG_RUNTIME_DIR").value_or("");
  options.home_folder = environment.find_value("HOME").value_or("");
  return options;
}

Session::Session(const Role& role) : role_(role), name_(name_of(role.task)) {
  if (role.cluster.empty()) {
    for (int rank = 0; rank < role.size; ++rank) awaited_.push_back({TaskType::worker, rank});
  } else {
    awaited_ = role.cluster.training_tasks(role.chief_trains);
  }
  for (const auto& task : awaited_) trainers_.push_back(name_of(task));
  if (role.chief_trains) return;
  if (auto chief = role.cluster.chief()) awaited_.push_back(*chief);
}

Session::~Session() {
  if (client_) client_->close();
  if (server_) server_->close();
}

std::unique_ptr<Session> Session::join(const Role& role, SessionOptions options) {
  std::unique_ptr<Session> session(new Session(role));
  if (role.store || role.size > 1 || role.cluster.tasks().size() > 1) write_output_by_lines();
  session->secret_ = options.secret;
  if (role.store) {
    session->connect(*role.store, options);
  } else if (role.cluster.tasks().size() > 1) {
    const auto chief = role.cluster.chief();
    if (!chief)
      throw InvalidInput("the cluster has neither a chief nor a worker to host the store",
                         {.advice = "Add one to TF_CONFIG, or start the job with `cohort run`."});
    session->store_host_ = to_string(*chief);
    if (role.is_chief())
      session->host_store(role.cluster.address(role.task), options);
    else
      session->connect(role.cluster.address(*chief), options);
  } else if (role.size > 1) {
    session->meet(options);
  }
  return session;
}

void Session::host_store(const Address& mine, const SessionOptions& options) {
  require_secret(mine, options);
  server_ =
      std::make_unique<StoreServer>(StoreServerOptions{.bind = {bind_host(mine.host), mine.port},
                                                       .secret = options.secret,
                                                       .insecure = options.insecure});
  Address here = server_->address();
  if (here.host.empty()) here.host = "127.0.0.1";
  connect(here, options);
}

void Session::connect(const Address& store, const SessionOptions& options) {
  require_secret(store, options);
  Deadline deadline = Deadline::after(options.timeout);
  bool by_hand = !role_.store;
  StoreClientOptions target{.address = store, .secret = options.secret, .name = name_};
  try {
    if (by_hand && !server_ && options.timeout > kQuietConnect) client_ = connect_quickly(target);
    if (!client_) client_ = StoreClient::connect(target, deadline);
  } catch (const TimeoutError& error) {
    throw TimeoutError(
        fmt::format("{} found no store at {} within {} s: {}", name_, to_string(store),
                    options.timeout.count() / 1000.0, error.message()),
        {.advice = role_.store ? "Check that the launcher of this job still runs."
                               : fmt::format("Start {} too: it hosts the store.", store_host_)});
  }
  announce(deadline);
  if (by_hand) agree_on_tasks(deadline);
}

// Nothing when the task that hosts the store is not there yet.
std::unique_ptr<StoreClient> Session::connect_quickly(const StoreClientOptions& target) const {
  try {
    return StoreClient::connect(target, Deadline::after(kQuietConnect));
  } catch (const TimeoutError& error) {
    log::info("{} waits for {}, which hosts the job's store: {}", name_, store_host_,
              error.message());
    return nullptr;
  }
}

// Two terminals with different clusters would otherwise meet, and wait for tasks that never come.
// Addresses may differ (a task may call itself 0.0.0.0), the list of tasks may not.
void Session::agree_on_tasks(Deadline deadline) {
  const bool ranks_only = role_.cluster.empty();
  std::string mine = ranks_only ? fmt::format("{} ranks", role_.size)
                                : write_cluster_json(role_.cluster, Evaluator::leave_out);
  auto claim = client_->compare_and_set(key("cluster"), std::nullopt, mine, deadline);
  if (claim.swapped || claim.found == mine) return;
  std::string others = claim.found.value_or("{}");
  if (ranks_only ||
      listed_tasks(parse_cluster_json(others, "the job's cluster")) != listed_tasks(role_.cluster))
    throw InvalidInput(
        fmt::format("the cluster that {} gives {} is {}, but the job at {} has {}", role_.dialect,
                    name_, mine, to_string(client_->address()), others),
        {.advice = "Give every task the same cluster; only the task differs."});
  log::warning("{} was given other addresses than the rest of the job: {} instead of {}", name_,
               mine, others);
}

// A task that comes back in a later attempt is another client to the store.
std::string Session::name_of(const TaskId& task) const {
  if (role_.attempt <= 1) return to_string(task);
  return fmt::format("{} (attempt {})", to_string(task), role_.attempt);
}

std::string Session::key(std::string_view name) const {
  return fmt::format("{}/{}/{}", role_.job.empty() ? "job" : role_.job, role_.attempt, name);
}

std::string Session::end_key(const std::string& name) const { return key("end/" + name); }

StoreClient& Session::store() {
  COHORT_CHECK(client_ != nullptr, "a task that is alone has no store");
  return *client_;
}

void Session::barrier(const std::string& name, Deadline deadline) {
  if (is_alone()) return;
  if (!role_.is_training())
    throw InvalidInput(
        fmt::format("{} does not train, but barrier '{}' is of the training tasks", name_, name),
        {.advice = "Use store().barrier() with a count of your own."});
  BarrierOptions options{.member = name_, .members = trainers_};
  // Names are a guess where the dialect tells ranks only.
  if (std::find(trainers_.begin(), trainers_.end(), name_) == trainers_.end())
    options.members.clear();
  try {
    client_->barrier(key("barrier/" + name), role_.size, deadline, options);
  } catch (const PeerError& error) {
    raise_lost_in_barrier(error, name);
  }
}

// Again, with the task that left, which the store knows by its name alone; the launcher hears of
// it, too.
void Session::raise_lost_in_barrier(const PeerError& error, const std::string& barrier) const {
  ErrorContext context = error.context();
  for (const auto& task : awaited_)
    if (error.message().starts_with(name_of(task) + " left the store")) {
      context.peer = to_string(task);
      note_lost_peer(context.peer, LastWord::Loss::left, fmt::format("barrier '{}'", barrier),
                     error.what());
    }
  throw PeerError(error.message(), context);
}

}  // namespace cohort::cluster
