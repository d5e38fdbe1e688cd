#include "cohort/capi/world/world.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "cohort/base/error.h"

namespace cohort::capi {

namespace {

const char* const kSetRequest = "process set";
const char* const kClosed = "the world was closed";

// Every rank's text, over the group.
std::vector<std::string> share(collective::Group& group, const std::string& text,
                               Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> sizes(ranks);
  const auto own = static_cast<std::int64_t>(text.size());
  group.all_gather(&own, sizes.data(), 1, collective::DataType::i64, {deadline});
  const std::vector<std::size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  group.all_gather_v(text.data(), all.data(), counts, collective::DataType::u8, {deadline});
  std::vector<std::string> texts;
  std::size_t from = 0;
  for (const std::size_t count : counts) {
    texts.push_back(all.substr(from, count));
    from += count;
  }
  return texts;
}

}  // namespace

World::World(std::shared_ptr<collective::Group> group, const WorldOptions& options,
             Deadline deadline)
    : options_(options) {
  const int rank = group->rank(), size = group->size();
  place_ = place_of(rank, share(*group, options.host.empty() ? "host" : options.host, deadline));
  std::int64_t fusion = static_cast<std::int64_t>(options.fusion_bytes);
  group->all_reduce(&fusion, &fusion, 1, collective::DataType::i64,
                    {.op = collective::ReduceOp::minimum, .deadline = deadline});
  options_.fusion_bytes = static_cast<std::size_t>(fusion);
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  EngineOptions engine = engine_options(ranks);
  engine.executor.change_sets = [this](const Signature& signature, Request& request) {
    change_sets(signature, request);
  };
  world_ = std::make_shared<RequestEngine>(std::move(group), std::move(engine));
  sets_[0] = {ranks, world_};
  if (size == 1 || (options.stall.warning.count() <= 0 && options.stall.shutdown.count() <= 0))
    return;
  stall_watch_ = std::make_unique<StallWatch>(
      options.stall,
      [this] {
        const std::lock_guard lock(mutex_);
        std::vector<StallWatch::Watched> watched;
        for (const auto& [id, set] : sets_)
          if (set.engine) watched.push_back({id, set.ranks, set.engine});
        return watched;
      },
      [this](const Failure& failure) { fail(failure); });
}

World::~World() { close(); }

EngineOptions World::engine_options(std::vector<std::int32_t> ranks) {
  return {.executor = {.fusion_bytes = options_.fusion_bytes, .change_sets = {}},
          .world_ranks = std::move(ranks),
          .cycle = options_.cycle,
          .on_failure = [this](const Failure& failure) { fail(failure); },
          .on_round = [this] { timeline_.mark_round(); },
          .on_end = [this](const Request& request,
                           Request::Clock::time_point ready) { timeline_.record(request, ready); }};
}

std::shared_ptr<RequestEngine> World::engine(int set) const {
  if (set == 0) return world_;
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end())
    throw InvalidInput(fmt::format("there is no process set {}", set),
                       {.advice = "Add it first, on every rank."});
  if (!found->second.engine)
    throw InvalidInput(fmt::format("rank {} is not in process set {}, which has ranks {}", rank(),
                                   set, fmt::join(found->second.ranks, ", ")),
                       {.advice = "Submit the request on its ranks only."});
  return found->second.engine;
}

std::vector<std::int32_t> World::ranks_of(int set) const {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end()) throw InvalidInput(fmt::format("there is no process set {}", set));
  return found->second.ranks;
}

void World::run(const RequestRef& request) {
  world_->submit(request, true);
  world_->wait(*request, Deadline::never());
  if (request->failure.happened()) throw StatusError(request->failure);
}

int World::add_set(std::span<const std::int32_t> ranks) {
  auto signature = std::make_shared<Signature>();
  signature->kind = Kind::add_set;
  signature->name = kSetRequest;
  signature->ranks.assign(ranks.begin(), ranks.end());
  std::sort(signature->ranks.begin(), signature->ranks.end());
  const auto& sorted = signature->ranks;
  if (sorted.empty() || sorted.front() < 0 || sorted.back() >= size() ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw InvalidInput(
        fmt::format("[{}] are not the ranks of a process set in a world of {}",
                    fmt::join(ranks, ", "), size()),
        {.advice = fmt::format("Give one or more different ranks from 0 to {}.", size() - 1)});
  const std::lock_guard one_at_a_time(set_calls_);
  const auto request = std::make_shared<Request>();
  request->signature = std::move(signature);
  run(request);
  return static_cast<int>(request->value);
}

void World::remove_set(int set) {
  if (set == 0)
    throw InvalidInput("process set 0 is the world itself", {.advice = "Close the world instead."});
  ranks_of(set);
  auto signature = std::make_shared<Signature>();
  signature->kind = Kind::remove_set;
  signature->name = kSetRequest;
  signature->set = set;
  const std::lock_guard one_at_a_time(set_calls_);
  const auto request = std::make_shared<Request>();
  request->signature = std::move(signature);
  run(request);
}

// On the thread that drives set 0, at the same point of the order on every rank.
void World::change_sets(const Signature& signature, Request& request) {
  if (signature.kind == Kind::add_set)
    add(signature, request);
  else
    remove(signature.set);
}

std::unique_ptr<collective::Group> World::form(const std::vector<std::int32_t>& ranks) {
  // Errors name ranks of the set.
  const auto in_world = [&](Failure failure) {
    const auto peer = static_cast<std::size_t>(failure.peer);
    if (failure.peer >= 0 && peer < ranks.size()) failure.peer = ranks[peer];
    return StatusError(std::move(failure));
  };
  try {
    return world_->subgroup(std::vector<int>(ranks.begin(), ranks.end()));
  } catch (const PeerError&) {
    throw in_world(current_failure());
  } catch (const TimeoutError&) {
    throw in_world(current_failure());
  }
}

void World::add(const Signature& signature, Request& request) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, set] : sets_)
      if (set.ranks == signature.ranks)
        throw InvalidInput(fmt::format("a process set with ranks {} exists already, number {}",
                                       fmt::join(signature.ranks, ", "), id),
                           {.advice = "Use that one, or remove it first."});
  }
  Set set{signature.ranks, nullptr};
  if (std::binary_search(set.ranks.begin(), set.ranks.end(), rank())) {
    set.engine = std::make_shared<RequestEngine>(form(set.ranks), engine_options(set.ranks));
  }
  const std::lock_guard lock(mutex_);
  // Those who closed or failed all sets in the meantime did not know of this one.
  if (closed_) throw StatusError({COHORT_CLOSED, kClosed});
  if (failure_.happened()) throw StatusError(failure_);
  int number = 1;  // the lowest that is free
  while (sets_.contains(number)) ++number;
  request.value = number;
  sets_[number] = std::move(set);
}

void World::remove(int set) {
  Set removed;
  {
    const std::lock_guard lock(mutex_);
    auto node = sets_.extract(set);
    if (node.empty()) throw InvalidInput(fmt::format("there is no process set {}", set));
    removed = std::move(node.mapped());
  }
  if (removed.engine)
    removed.engine->close({COHORT_CLOSED, fmt::format("process set {} was removed", set)});
}

void World::start_timeline(const std::string& path, bool mark_cycles) {
  timeline_.start(path, rank(), mark_cycles);
}
void World::stop_timeline() { timeline_.stop(); }

std::map<int, std::shared_ptr<RequestEngine>> World::engines() const {
  const std::lock_guard lock(mutex_);
  std::map<int, std::shared_ptr<RequestEngine>> all;
  for (const auto& [id, set] : sets_)
    if (set.engine) all[id] = set.engine;
  return all;
}

void World::fail(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.happened()) failure_ = failure;
  }
  for (const auto& [id, engine] : engines()) engine->fail(failure);
}

bool World::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void World::close() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  stall_watch_.reset();
  // Sub-groups first: they use the world's group.
  const auto all = engines();
  for (auto engine = all.rbegin(); engine != all.rend(); ++engine)
    engine->second->close({COHORT_CLOSED, kClosed});
  timeline_.stop();
}

}  // namespace cohort::capi
