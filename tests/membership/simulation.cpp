#include "simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace cohort::membership::simulator {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int kCoordinator = 0;                    // its node; task t is node t + 1
constexpr Time kDisturbances = milliseconds(600);  // they begin within this time
constexpr Time kEndOfDisturbances = milliseconds(2200);
constexpr Time kTimeToEnd = seconds(30);

}  // namespace

CoordinatorOptions Simulation::draw_options(Random& random) {
  CoordinatorOptions options;
  options.most = random.between(3, 8);
  options.least = random.between(1, (options.most + 1) / 2);
  options.initial = random.between(options.least, options.most);
  options.lease = milliseconds(random.between(100, 400));
  options.start_patience = milliseconds(500);
  options.report_patience = milliseconds(700);
  return options;
}

DelayModel Simulation::draw_delays(Random& random) {
  DelayModel delays;
  delays.most = milliseconds(random.between(1, 8));
  if (random.chance(0.3)) delays.spike_chance = random.chance(0.5) ? 0.02 : 0.15;
  delays.spike = milliseconds(random.between(20, 500));
  return delays;
}

Simulation::Simulation(SimulationOptions options)
    : options_(options),
      random_(options.seed),
      coordinator_options_(draw_options(random_)),
      stages_(random_.between(10, 40)),
      shards_(coordinator_options_.most + random_.between(0, 5)),
      stage_time_(milliseconds(random_.between(1, 12))),
      network_(clock_, random_, coordinator_options_.most + 1, draw_delays(random_)),
      checks_(coordinator_options_, stages_, shards_),
      coordinator_(coordinator_options_),
      tasks_(static_cast<std::size_t>(coordinator_options_.most)),
      follow_up_chance_(random_.chance(0.3) ? 0.5 : 0) {}

Simulation::~Simulation() = default;

void Simulation::trace(const std::string& line) const {
  fmt::print("{:10.3f} ms  {}\n", static_cast<double>(clock_.now().count()) / 1e6, line);
  std::fflush(stdout);
}

SimulationResult Simulation::run() {
  const int most = coordinator_options_.most;
  for (int task = 0; task < most; ++task)
    if (task < coordinator_options_.initial || random_.chance(0.5))
      clock_.at(random_.between(Time(0), milliseconds(100)), [this, task] { start(task); });
  to_coordinator([this] { coordinator_.tick(clock_.now()); });
  const int disturbances = random_.between(0, 10);
  for (int i = 0; i < disturbances; ++i)
    clock_.at(random_.between(milliseconds(1), kDisturbances), [this] { disturb(); });
  clock_.at(kEndOfDisturbances, [this] { end_disturbances(); });
  while (!over_ && clock_.step(kEndOfDisturbances + kTimeToEnd)) ++result_.events;
  if (!over_)
    throw Violation(
        fmt::format("training is not over {} s after the last disturbance: view {} of "
                    "{} members, phase {}",
                    kTimeToEnd / seconds(1), coordinator_.view().number, coordinator_.view().size(),
                    static_cast<int>(coordinator_.phase())));
  checks_.check_ledger();
  result_.commits = checks_.commits();
  result_.redone = checks_.redone();
  result_.duration = clock_.now();
  return result_;
}

void Simulation::start(int task) {
  Task& place = tasks_[static_cast<std::size_t>(task)];
  if (over_ || (place.worker && place.worker->alive())) return;
  if (place.worker) {
    place.dead.push_back(std::move(place.worker));
    ++place.incarnation;
  }
  MemberInfo info;
  info.task = fmt::format("worker/{}", task);
  info.incarnation = place.incarnation;
  if (tracing()) trace(info.id() + " starts");
  place.worker = std::make_unique<ModelWorker>(*this, task + 1, info);
  place.worker->start();
}

void Simulation::kill(int task) {
  ModelWorker& worker = *tasks_[static_cast<std::size_t>(task)].worker;
  const MemberInfo info = worker.member().info();
  if (tracing()) trace(info.id() + " is killed");
  worker.kill();
  for (int node = 0; node <= coordinator_options_.most; ++node)
    if (random_.chance(0.5)) network_.lose_in_flight(worker.node(), node);
  // Who finds out: the supervisor's waitpid, the store's connection, or the lease alone.
  const int how = random_.between(0, 9);
  if (how < 8)
    clock_.after(random_.between(Time(0), milliseconds(20)), [this, info, how] {
      to_coordinator([this, info, how] {
        if (how < 7)
          coordinator_.lost(clock_.now(), info.task, info.incarnation, "was killed");
        else
          coordinator_.suspect(clock_.now(), info.id(), "its connection ended");
      });
    });
  for (Task& other : tasks_)
    if (other.worker && other.worker->alive() && random_.chance(0.7))
      clock_.after(random_.between(microseconds(10), milliseconds(30)),
                   [this, peer = other.worker.get(), view = other.worker->working_view()] {
                     peer->post([peer, view] { peer->peer_broke(view, "connection reset"); });
                   });
  if (random_.chance(0.8))
    clock_.after(random_.between(milliseconds(20), milliseconds(400)),
                 [this, task] { start(task); });
}

std::vector<int> Simulation::living() const {
  std::vector<int> living;
  for (std::size_t task = 0; task < tasks_.size(); ++task)
    if (tasks_[task].worker && tasks_[task].worker->alive())
      living.push_back(static_cast<int>(task));
  return living;
}

void Simulation::cut_some(Time until) {
  const bool lossy = random_.chance(0.5);
  const int nodes = coordinator_options_.most + 1;
  // One node from all others, a group from the rest, or single links; perhaps one way only.
  const int victim = random_.between(1, nodes - 1);
  const std::uint64_t group = random_.next();
  const int shape = random_.between(0, 2);
  const bool both_ways = random_.chance(0.8);
  for (int from = 0; from < nodes; ++from)
    for (int to = from + 1; to < nodes; ++to) {
      const bool apart = shape == 0   ? from == victim || to == victim
                         : shape == 1 ? (((group >> from) ^ (group >> to)) & 1) != 0
                                      : random_.chance(0.2);
      if (!apart) continue;
      network_.cut(from, to, until, lossy);
      if (both_ways) network_.cut(to, from, until, lossy);
      if (from == kCoordinator && lossy && random_.chance(0.5)) {
        const Task& task = tasks_[static_cast<std::size_t>(to - 1)];
        if (task.worker)
          to_coordinator([this, id = task.worker->id()] {
            coordinator_.suspect(clock_.now(), id, "its connection ended");
          });
      }
    }
}

void Simulation::disturb() {
  const std::vector<int> alive = living();
  if (over_ || alive.empty()) return;
  const int task =
      alive[static_cast<std::size_t>(random_.between(0, static_cast<int>(alive.size()) - 1))];
  ModelWorker& worker = *tasks_[static_cast<std::size_t>(task)].worker;
  const Time until = clock_.now() + random_.between(milliseconds(5), milliseconds(1200));
  const int what = random_.between(0, 99);
  if (what < 40) {
    kill(task);
    // More at once: up to all but one.
    if (random_.chance(0.2))
      for (const int other : alive)
        if (other != task && random_.chance(0.5) && living().size() > 1) kill(other);
  } else if (what < 55) {
    if (tracing())
      trace(fmt::format("{} is paused until {} ms", worker.id(), until / milliseconds(1)));
    worker.pause(until);
    if (plant() == Plant::evict_without_waiting)
      to_coordinator([this, id = worker.id()] { coordinator_.lost(clock_.now(), id, "silent"); });
  } else if (what < 70) {
    if (tracing()) trace(fmt::format("links are cut until {} ms", until / milliseconds(1)));
    cut_some(until);
    if (plant() == Plant::evict_without_waiting)
      to_coordinator([this, id = worker.id()] { coordinator_.lost(clock_.now(), id, "silent"); });
  } else if (what < 76) {
    if (tracing()) trace(fmt::format("{} hangs until {} ms", worker.id(), until / milliseconds(1)));
    worker.hang(until);
  } else if (what < 84) {
    if (tracing()) trace(worker.id() + " sees a break");
    worker.post([&worker] { worker.peer_broke(worker.working_view(), "checksum"); });
  } else if (what < 94) {
    const int members = random_.between(coordinator_options_.least, coordinator_options_.most);
    if (tracing()) trace(fmt::format("resize to {}", members));
    to_coordinator([this, members] { coordinator_.resize(clock_.now(), members, "resized"); });
  } else {
    if (tracing())
      trace(fmt::format("the coordinator is paused until {} ms", until / milliseconds(1)));
    coordinator_paused_until_ = std::max(coordinator_paused_until_, until);
    clock_.at(coordinator_paused_until_, [this] { to_coordinator([] {}); });
  }
}

// From here on everything works; workers that are missing are started again, as far as the job wants.
void Simulation::end_disturbances() {
  if (over_) return;
  if (tracing()) trace("the disturbances are over");
  network_.mend_all();
  for (std::size_t task = 0; task < tasks_.size(); ++task)
    if (static_cast<int>(living().size()) < coordinator_.target()) start(static_cast<int>(task));
}

void Simulation::send_to_coordinator(ModelWorker& from, const Message& message) {
  if (tracing())
    trace(fmt::format("{} says {} {} (stage {})", message.member, to_string(message.kind),
                      message.number, message.stage));
  network_.send(from.node(), kCoordinator, [this, bytes = encode(message)] {
    to_coordinator([this, bytes] {
      Message message = decode_message(bytes);
      if (plant() == Plant::old_reports_count && message.kind == MessageKind::report)
        message.number = std::max(message.number, proposed_);
      coordinator_.handle(clock_.now(), message);
    });
  });
}

void Simulation::send_to_worker(ModelWorker& from, const std::string& id,
                                std::function<void(ModelWorker&)> deliver) {
  for (Task& task : tasks_) {
    ModelWorker* to = task.worker.get();
    if (to == nullptr || !to->alive() || to->id() != id) continue;
    const bool sent =
        network_.send(from.node(), to->node(), [to, id, deliver = std::move(deliver)] {
          to->post([to, id, deliver] {
            if (to->id() == id) deliver(*to);
          });
        });
    if (sent) return;
    if (tracing()) trace(fmt::format("what {} sends to {} is lost", from.id(), id));
    // A connection that loses something is broken, and both ends find out.
    for (ModelWorker* end : {&from, to})
      clock_.after(random_.between(milliseconds(5), milliseconds(200)),
                   [end, view = from.working_view()] {
                     end->post([end, view] { end->peer_broke(view, "connection timed out"); });
                   });
    return;
  }
}

void Simulation::to_coordinator(std::function<void()> what) {
  for_coordinator_.push_back(std::move(what));
  if (clock_.now() < coordinator_paused_until_) return;
  for (std::size_t i = 0; i < for_coordinator_.size(); ++i) {
    const auto event = std::move(for_coordinator_[i]);
    event();
  }
  for_coordinator_.clear();
  if (const auto due = coordinator_.next_tick(); due && *due <= clock_.now())
    coordinator_.tick(clock_.now());
  drain_coordinator();
  schedule_tick();
}

void Simulation::drain_coordinator() {
  for (const MembershipEvent& event : coordinator_.take_events()) {
    if (tracing())
      trace(fmt::format("coordinator: event {} view {} of {} {} {}", static_cast<int>(event.kind),
                        event.view.number, event.view.size(), event.member, event.text));
    switch (event.kind) {
      case MembershipEvent::Kind::proposed:
        if (event.view.number <= proposed_) throw Violation("a number was proposed twice");
        proposed_ = event.view.number;
        break;
      case MembershipEvent::Kind::installed:
        checks_.installed(event.view);
        ++result_.views;
        // A second failure while the others recover from the first.
        if (clock_.now() < kDisturbances && random_.chance(follow_up_chance_))
          clock_.after(random_.between(Time(0), milliseconds(10)), [this] { disturb(); });
        break;
      case MembershipEvent::Kind::evicted:
        checks_.evicted(event.member);
        ++result_.evictions;
        break;
      case MembershipEvent::Kind::over:
        over_ = true;
        break;
      default:
        break;
    }
  }
  for (const Coordinator::Outgoing& outgoing : coordinator_.take_messages()) {
    for (Task& task : tasks_) {
      ModelWorker* worker = task.worker.get();
      if (worker == nullptr || !worker->alive() || worker->id() != outgoing.member) continue;
      if (tracing())
        trace(fmt::format("coordinator: {} {} to {}", to_string(outgoing.message.kind),
                          outgoing.message.number, outgoing.member));
      network_.send(kCoordinator, worker->node(), [worker, bytes = encode(outgoing.message)] {
        worker->post([worker, bytes] { worker->receive(decode_message(bytes)); });
      });
    }
  }
}

void Simulation::schedule_tick() {
  const auto next = coordinator_.next_tick();
  if (!next || (tick_at_ > clock_.now() && tick_at_ <= *next)) return;
  tick_at_ = std::max(*next, clock_.now() + Time(1));
  clock_.at(tick_at_, [this] { to_coordinator([this] { coordinator_.tick(clock_.now()); }); });
}

std::uint64_t Simulation::oldest_active_view() const {
  std::uint64_t oldest = ~std::uint64_t{0};
  for (const Task& task : tasks_)
    if (task.worker && task.worker->alive() && task.worker->member().may_commit(clock_.now()))
      oldest = std::min(oldest, task.worker->member().view().number);
  return oldest;
}

}  // namespace cohort::membership::simulator
