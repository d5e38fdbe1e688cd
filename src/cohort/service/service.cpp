#include "cohort/service/service.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/limits.h"
#include "cohort/base/process/machine.h"
#include "cohort/cluster/environment.h"
#include "cohort/engine/attached_engine.h"
#include "cohort/engine/hosts_engine.h"
#include "cohort/engine/kubernetes/kubernetes_engine.h"
#include "cohort/engine/local_engine.h"
#include "cohort/engine/slurm/slurm_engine.h"
#include "cohort/jobspec/catalogue.h"
#include "cohort/jobspec/resolve.h"
#include "cohort/jobspec/runtime_probe.h"
#include "cohort/launch/plan/task_environment.h"
#include "cohort/service/api/admin_token.h"
#include "cohort/service/api/api.h"
#include "cohort/service/api/source_upload.h"
#include "cohort/service/jobs/job_manager.h"
#include "cohort/service/jobs/job_operations.h"
#include "cohort/service/jobs/source_unpacking.h"
#include "cohort/service/metrics/log_metrics.h"
#include "cohort/service/metrics/metrics_collector.h"
#include "cohort/service/page/page_port.h"
#include "cohort/service/service_root.h"
#include "cohort/service/store/source_store.h"

namespace cohort::service {
namespace {

constexpr std::chrono::seconds kLookTime{5};  // whether it is still needed
constexpr std::chrono::seconds kResolveTime{5};
constexpr const char* kLoopback = "127.0.0.1";
constexpr int kAnyHosts = 1'000'000;
constexpr jobspec::Size kAnySize{.cores = 1e6, .memory_bytes = 1ULL << 60, .gpus = 1'000'000};

HttpLimits api_limits() {
  HttpLimits limits;
  limits.head = 64 * 1024;  // a cursor of the logs of a thousand tasks
  limits.connections = 1024;
  limits.body = kMostBodyBytes;
  limits.pending = std::size_t{64} << 20;
  limits.time = std::chrono::seconds(30);
  limits.stall = std::chrono::minutes(10);  // a follower that was put to sleep wakes up again
  limits.requests = 1000;
  return limits;
}

jobspec::Size machine_of(const ServiceOptions& options) {
  const auto gpus = launch::visible_gpus(cluster::Environment::of_this_process());
  jobspec::Size size{.cores = static_cast<double>(usable_cores()),
                     .memory_bytes = usable_memory(),
                     .gpus = static_cast<int>(gpus.size())};
  if (options.cores) size.cores = *options.cores;
  if (options.memory_bytes) size.memory_bytes = *options.memory_bytes;
  if (options.gpus) size.gpus = *options.gpus;
  return size;
}

bool is_loopback(const Endpoint& endpoint) {
  if (endpoint.host().empty()) return false;  // every interface
  const auto addresses = resolve(endpoint, Deadline::after(kResolveTime));
  return std::all_of(addresses.begin(), addresses.end(),
                     [](const SocketAddress& address) { return address.is_loopback(); });
}

std::vector<HttpListener> listeners_of(const ServiceOptions& options,
                                       const std::filesystem::path& socket) {
  std::vector<HttpListener> listeners;
  listeners.push_back({.bind = Endpoint::unix_path(socket.string())});
  if (!options.listen) return listeners;
  if (!options.tls && !is_loopback(*options.listen))
    throw InvalidInput(
        fmt::format("--listen {} can be reached from other machines, and needs TLS",
                    options.listen->to_string()),
        {.advice = "Give --tls-cert FILE and --tls-key FILE, or listen on 127.0.0.1."});
  listeners.push_back({.bind = *options.listen, .tls = options.tls});
  return listeners;
}

std::vector<std::string> names_of(const ServiceOptions& options) {
  std::vector<std::string> names = {host_name()};
  if (options.listen && !options.listen->host().empty()) names.push_back(options.listen->host());
  return names;
}

JobManager::Engines make_engines(const ServiceOptions& options) {
  JobManager::Engines engines;
  engines.emplace("local", std::make_unique<engine::LocalEngine>());
  engines.emplace("hosts", std::make_unique<engine::HostsEngine>(options.host_words));
  engines.emplace(engine::AttachedEngine::kName, std::make_unique<engine::AttachedEngine>());
  engines.emplace("slurm", std::make_unique<engine::SlurmEngine>());
  engines.emplace("kubernetes",
                  std::make_unique<engine::kubernetes::KubernetesEngine>(options.kubernetes));
  return engines;
}

jobspec::ResolvedJob resolve_for(const JobManager& manager, const RunFolders& folders,
                                 const jobspec::JobSpec& spec) {
  const engine::Engine* engine = manager.engine(spec.engine);
  if (!engine)
    throw InvalidInput(fmt::format("engine is '{}'", spec.engine),
                       {.advice = "There are: local, hosts, slurm, kubernetes, attached."});
  if (!spec.source.empty() && !use_source(folders, spec.source))
    throw InvalidInput(fmt::format("the source {} is not there", spec.source),
                       {.advice = "Send it first: PUT /v1/sources/SHA256"});
  require_expressions(spec.metric_definitions);
  // What other hosts have is asked when the attempt begins.
  if (!spec.output.empty() && !std::filesystem::path(spec.output).is_absolute())
    throw InvalidInput(fmt::format("output is '{}', and must be an absolute path", spec.output),
                       {.advice = "The service does not know the folder that you are in."});
  const int hosts = engine->abilities().needs_queue ? 1 : kAnyHosts;
  const bool any_size =
      engine->abilities().sizes_unknown && !spec.instance_type.starts_with("local");
  auto resolved = jobspec::resolve(spec,
                                   {.size = any_size ? kAnySize : manager.machine(),
                                    .hosts = hosts,
                                    .version_at_hand = jobspec::version_at_hand,
                                    .version_in_venv = jobspec::version_in_venv},
                                   jobspec::read_catalogues(folders.root));
  engine->check(resolved, spec.source.empty() ? std::filesystem::path()
                                              : unpacked_source(folders, spec.source));
  return resolved;
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// A file that grew too large (RLIMIT_FSIZE) is an error of the write, as a full disk is. Not by
// ignoring the signal, which jobs would inherit.
void survive_file_limit() {
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &nothing, nullptr);
}

}  // namespace

// In the order in which they begin; they end the other way round.
struct Service::State {
  explicit State(ServiceOptions given)
      : options(std::move(given)),
        lock((open_root(options.folders), lock_root(options.folders))),
        socket(socket_path(options.folders)),
        listeners(listeners_of(options, socket)),
        unpacking(options.folders),
        manager(
            {.folders = options.folders,
             .machine = machine_of(options),
             .find_source = [this](const std::string& sha256) { return unpacking.find(sha256); }},
            make_engines(options)),
        collector({.folders = options.folders,
                   .engine = [this](std::string_view name) { return manager.engine(name); }}),
        retention(options.folders, options.retention),
        operations(
            options.folders,
            [this](const jobspec::JobSpec& spec) {
              return resolve_for(manager, options.folders, spec);
            },
            [this](std::string_view job) { manager.wake(job); }),
        api({.folders = options.folders,
             .operations = operations,
             .store = operations.store(),
             .tokens = Tokens(operations.store()),
             .sessions = Sessions(operations.store()),
             .background = background,
             .options = options.known,
             .engine = [this](std::string_view name) { return manager.engine(name); },
             .machine = [this] { return manager.machine(); },
             .free = [this] { return manager.free(); },
             .line = [this] { return manager.line(); },
             .readers = std::make_shared<StoreReaders>(options.folders.root),
             .touch = {},  // the API's own
             .has_root = [this] { return has_root(options.folders, lock); },
             .page = PageFiles(options.page_folder),
             .page_address = [this] { return page_address(); }},
            {.own = ::geteuid(), .names = names_of(options)}) {
    remove_partial_uploads(options.folders);
    if (options.listen) {
      Tokens tokens(operations.store());
      ensure_admin_token(options.folders, tokens, user_name(::geteuid()));
    }
    background.post([] { jobspec::version_at_hand("python"); });  // before a client waits for it
    manager.start();
    collector.start();
    retention.start();
    serve();
    record.emplace(options.folders, socket, listens_at());
  }

  // Where browsers are signed in, their pages look for the port that they know.
  void serve() {
    const auto port = options.listen ? std::nullopt : last_page_port(options.folders);
    if (port && Sessions(operations.store()).has_any()) {
      auto with_page = listeners;
      with_page.push_back({.bind = Endpoint::tcp(kLoopback, *port)});
      try {
        begin_server(with_page);
        page_listener = with_page.size() - 1;
      } catch (const SystemError& error) {
        log::warning("the page is not at port {} any more: {}", *port, error.message());
      }
    }
    if (!server) begin_server(listeners);
    is_serving = true;
  }

  void begin_server(const std::vector<HttpListener>& at) {
    server.emplace(
        at, "the service", api_limits(),
        [this](const HttpRequest& request) { return api.handle(request); },
        [this](const HttpRequest& head) { return api.on_head(head); });
  }

  std::string listens_at() const {
    if (!options.listen) return {};
    const std::string host = options.listen->host().empty() ? host_name() : options.listen->host();
    return fmt::format("{}://{}", options.tls ? "https" : "http",
                       Endpoint::tcp(host, server->port(1)).to_string());
  }

  // On the server's thread, which may be quicker than the one that makes the server.
  std::string page_address() {
    if (!is_serving) throw TimeoutError("the service is starting", {.advice = "Try again."});
    if (options.listen) return listens_at();
    if (!page_listener) open_page_listener();
    return fmt::format("http://{}:{}", kLoopback, server->port(*page_listener));
  }

  void open_page_listener() {
    const auto listen = [this](int port) {
      page_listener = server->listen({.bind = Endpoint::tcp(kLoopback, port)});
    };
    try {
      listen(last_page_port(options.folders).value_or(0));
    } catch (const SystemError&) {  // another program has it now
      listen(0);
    }
    keep_page_port(options.folders, server->port(*page_listener));
  }

  bool is_needed() const {
    return manager.has_unfinished() || Api::Clock::now() - api.last_used() < options.idle;
  }

  ServiceOptions options;
  UniqueFd lock;
  std::filesystem::path socket;
  std::vector<HttpListener> listeners;
  SourceUnpacking unpacking;
  JobManager manager;
  MetricsCollector collector;
  Retention retention;
  JobOperations operations;
  Background background;
  Api api;
  std::optional<HttpServer> server;
  std::optional<ServiceRecord> record;
  std::optional<std::size_t> page_listener;  // opened when the page was first asked for
  std::atomic<bool> is_serving = false;
};

Service::Service(ServiceOptions options) {
  survive_file_limit();
  const sigset_t ending = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  raise_file_limit(kWantedFiles);
  state_ = std::make_unique<State>(std::move(options));
}

Service::~Service() = default;

std::filesystem::path Service::socket() const { return state_->socket; }

std::string Service::listens_at() const { return state_->listens_at(); }

std::optional<std::filesystem::path> Service::admin_token() const {
  if (!state_->options.listen) return std::nullopt;
  return admin_token_file(state_->options.folders);
}

std::string Service::run() {
  const sigset_t ending = ending_signals();
  const auto look = std::min<std::chrono::seconds>(kLookTime, state_->options.idle);
  while (true) {
    const timespec wait{.tv_sec = std::max<time_t>(1, look.count()), .tv_nsec = 0};
    const int signal = ::sigtimedwait(&ending, nullptr, &wait);
    if (signal == SIGTERM || signal == SIGINT)
      return fmt::format("ended by {}; jobs go on", signal == SIGTERM ? "TERM" : "INT");
    if (!has_root(state_->options.folders, state_->lock))
      return fmt::format("ended: its folder '{}' was removed or replaced",
                         state_->options.folders.root.string());
    if (state_->options.on_demand && !state_->is_needed())
      return fmt::format("ended: no jobs and no requests for {} s", state_->options.idle.count());
  }
}

}  // namespace cohort::service
