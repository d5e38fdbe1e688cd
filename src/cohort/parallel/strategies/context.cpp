#include "cohort/parallel/strategies/context.h"

#include <torch/torch.h>
#include <unistd.h>

#include <exception>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/process/machine.h"
#include "cohort/base/process/restart_state.h"
#include "cohort/cluster/dialects/scheduler_args.h"
#include "cohort/membership/group/elastic_membership.h"
#include "cohort/parallel/strategies/make_strategy.h"
#include "cohort/parallel/strategies/serve_parameters.h"
#include "cohort/parallel/strategies/transport.h"
#include "cohort/parallel/tensors/matrix_products.h"

namespace cohort {

namespace {

// For a program that ends without leave(): how long it stays for others that need what it hosts.
constexpr std::chrono::minutes kEndPatience{5};

// See init(). The chief says what was chosen.
void choose_threads(const StrategyFlags& flags, const cluster::Role& role,
                    const cluster::Environment& environment) {
  if (flags.threads > 0) at::set_num_threads(flags.threads);
  if (role.size <= 1 || !role.is_training()) return;
  std::string reason = "--threads";
  if (flags.threads == 0) {
    reason.clear();
    for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
      if (reason.empty() && environment.find_value(variable)) reason = variable;
    if (reason.empty()) {
      at::set_num_threads(std::max(1, usable_cores() / std::max(1, role.local_size)));
      reason = fmt::format("{} cores, {} workers of this host", usable_cores(), role.local_size);
    }
  }
  if (role.rank == 0)
    log::info(
        "LibTorch's threads: {} in a worker's own loop ({}), {} in a Trainer's "
        "replica; --threads sets both",
        at::get_num_threads(), reason, std::max(1, flags.threads));
}

void choose_matmul(const StrategyFlags& flags, const cluster::Role& role) {
  const auto chosen = parallel::choose_matrix_products(flags.matmul);
  if (chosen == parallel::MatrixProducts::onednn && role.size > 1 && role.is_training() &&
      role.rank == 0)
    log::info(
        "f32 matrices on the CPU are multiplied by oneDNN; --matmul torch leaves them to LibTorch");
}

}  // namespace

struct Context::State {
  std::vector<std::string> arguments;
  parallel::StrategySetup setup;
  std::shared_ptr<parallel::Strategy> strategy;
  std::optional<RestartState> keep;  // with the launcher, beyond this process's death
  bool has_left = false;             // or tried to
  bool is_gone = false;
  int exceptions = std::uncaught_exceptions();  // under way when the job was joined

  ~State() { leave_at_the_end(); }
  void leave(Deadline deadline);
  void leave_at_the_end() noexcept;
  collective::World& world() { return *setup.world; }
  bool is_elastic_member() const { return setup.elastic && setup.elastic->is_member(); }
};

int Context::rank() const {
  return state_->is_elastic_member() ? state_->setup.elastic->rank() : role().rank;
}
int Context::size() const {
  return state_->is_elastic_member() ? state_->setup.elastic->size() : role().size;
}
int Context::local_rank() const { return role().local_rank; }
int Context::local_size() const { return role().local_size; }
bool Context::is_chief() const {
  return state_->is_elastic_member() ? rank() == 0 : role().is_chief();
}
const cluster::Role& Context::role() const { return state_->world().session->role(); }
const std::vector<std::string>& Context::arguments() const { return state_->arguments; }
const StrategyFlags& Context::flags() const { return state_->setup.flags; }
std::string Context::output() const { return role().output; }
bool Context::is_service() const { return !role().is_training(); }

collective::Group& Context::group() const {
  expect_member();
  if (state_->setup.elastic) return state_->setup.elastic->group();
  if (const int replicas = flags().replicas_per_worker(); replicas > 1 && !state_->strategy)
    throw InvalidInput(
        fmt::format("{} replicas a worker were asked for, but a loop on the Context has one",
                    replicas),
        {.advice = "Run the loop inside context.strategy()->run(), use a Trainer, or leave "
                   "--num_replicas and --num_gpus out and start more workers."});
  if (!state_->world().group)
    throw InvalidInput(parallel::kNoGroup, {.advice = parallel::kNoGroupAdvice});
  return *state_->world().group;
}

membership::ElasticMembership* Context::elastic() const { return state_->setup.elastic.get(); }

void Context::expect_member() const {
  if (is_service())
    throw InvalidInput(fmt::format("{} does not train, so it has no group", to_string(role().task)),
                       {.advice = "Return context.serve() where context.is_service()."});
  if (state_->has_left)
    throw InvalidInput(fmt::format("{} has left its job", to_string(role().task)),
                       {.advice = "Call leave() after the last collective."});
}

int Context::serve(Deadline deadline) {
  if (!is_service())
    throw InvalidInput(fmt::format("{} trains, so it cannot serve", to_string(role().task)),
                       {.advice = "Call serve() only where context.is_service()."});
  if (role().task.type == cluster::TaskType::chief || role().task.type == cluster::TaskType::master)
    throw InvalidInput(
        fmt::format("{} is a coordinator beside the workers; Cohort's parameter servers need none",
                    to_string(role().task)),
        {.advice = "Start the job without a coordinator: worker 0 is the chief."});
  const bool serves = role().task.type == cluster::TaskType::ps &&
                      parallel::asks_for_parameter_server(flags(), role()) &&
                      !flags().servers.dry_run;
  if (serves)
    parallel::serve_parameters(state_->setup, state_->keep ? &*state_->keep : nullptr, deadline);
  else
    state_->world().session->serve_until_done(deadline);
  state_->world().session->close(deadline);
  return 0;
}

std::shared_ptr<parallel::Strategy> Context::strategy() {
  expect_member();
  if (!state_->strategy)
    state_->strategy = parallel::make_strategy(
        parallel::resolve_strategy(state_->setup.flags, role()), state_->setup);
  return state_->strategy;
}

void Context::State::leave(Deadline deadline) {
  if (is_gone) return;
  if (strategy) strategy->leave(deadline);
  if (setup.elastic) setup.elastic->leave(deadline);
  if (keep && world().session->role().is_training()) keep->set_finished();
  strategy.reset();
  has_left = true;
  world().leave(deadline);
  is_gone = true;
}

// An exception on its way out of the program is a task that failed: to leave as if all had gone well
// would let the others wait for its part, or take the job for done.
void Context::State::leave_at_the_end() noexcept {
  if (has_left || !setup.world || !setup.world->session) return;
  if (!setup.world->session->role().is_training()) return;
  if (std::uncaught_exceptions() > exceptions) return;
  try {
    leave(Deadline::after(kEndPatience));
  } catch (const std::exception& error) {
    log::error("this task could not leave its job in order: {}", error.what());
  }
}

void Context::leave(Deadline deadline) { state_->leave(deadline); }

Context init(const cluster::Environment& environment, const std::vector<std::string>& arguments) {
  auto parsed = parallel::take_strategy_flags(cluster::without_scheduler_args(arguments));
  const cluster::Role role = cluster::discover_role(environment, arguments);
  // A strategy that only the launcher named may be one that this program makes itself.
  if (role.is_training() && !(parsed.flags.distribution_strategy.empty() && !role.strategy.empty()))
    parallel::resolve_strategy(parsed.flags, role);
  parallel::check_transport(parsed.flags, role, environment);

  choose_threads(parsed.flags, role, environment);
  choose_matmul(parsed.flags, role);

  Context context;
  context.state_ = std::make_shared<Context::State>();
  Context::State& state = *context.state_;
  // Said before any other task hears of this process. A worker of a group cannot restart alone.
  const bool by_servers = parallel::asks_for_parameter_server(parsed.flags, role);
  std::optional<RestartState> keep;
  if (by_servers || !role.cluster.addresses(cluster::TaskType::ps).empty())
    keep = RestartState::from_variables(environment.find_value(kRestartFlagVariable),
                                        environment.find_value(kRestartStateVariable));
  if (keep && role.is_training()) keep->allow_restart(by_servers);
  auto network = collective::NetworkOptions::from(environment, role);
  auto world = std::make_shared<collective::World>();
  world->session = cluster::Session::join(role, cluster::SessionOptions::from(environment));
  network.secret =
      world->session->secret();  // where tasks meet by themselves, one was made for them
  std::shared_ptr<membership::ElasticMembership> elastic;
  if (role.elastic)
    elastic = std::make_shared<membership::ElasticMembership>(
        *world->session, network,
        membership::MemberInfo{.task = to_string(role.task),
                               .incarnation = role.incarnation,
                               .host = role.host(),
                               .pid = ::getpid()},
        *role.elastic);
  else if (role.is_training() && !by_servers)
    parallel::form_workers_group(*world, parsed.flags, network);
  if (by_servers) state.keep = std::move(keep);
  state.arguments = std::move(parsed.rest);
  state.setup = {.world = std::move(world),
                 .network = std::move(network),
                 .flags = parsed.flags,
                 .visible_gpus = environment.find_value("CUDA_VISIBLE_DEVICES").value_or(""),
                 .elastic = std::move(elastic)};
  return context;
}

Context init(int argc, const char* const* argv) {
  return init(
      cluster::Environment::of_this_process(),
      argc > 0 ? std::vector<std::string>(argv + 1, argv + argc) : std::vector<std::string>());
}

}  // namespace cohort
