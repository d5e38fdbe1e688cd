#include <chrono>
#include <list>

#include "cohort/capi/functions/boundary.h"
#include "cohort/capi/functions/times.h"

namespace cohort::capi {

namespace {

constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);

std::chrono::milliseconds timeout_of(std::int64_t ms) {
  return ms <= 0 ? kDefaultTimeout : time_of_ms(ms);
}

// All that this process has: C functions find nothing else. Handles stay for ever.
struct Registry {
  std::mutex joining;  // held while a job is joined
  std::mutex mutex;    // guards the rest
  std::list<cohort_job> jobs;
  std::list<cohort_world> worlds;
  cohort_job* current = nullptr;
  std::uint64_t opened = 0;  // worlds, in the job that was left last
};

Registry& registry() {
  static auto* const all = new Registry;  // threads may outlive static objects
  return *all;
}

cohort_job* current_job() {
  const std::lock_guard lock(registry().mutex);
  return registry().current;
}

std::uint64_t worlds_opened_before() {
  const std::lock_guard lock(registry().mutex);
  return registry().opened;
}

cohort_job* add_job(std::shared_ptr<Job> job) {
  const std::lock_guard lock(registry().mutex);
  cohort_job& handle = registry().jobs.emplace_back();
  const cluster::Role& role = job->role();
  handle.id = role.job;
  handle.output = role.output;
  handle.dialect = role.dialect;
  handle.info = {.struct_size = sizeof(cohort_job_info),
                 .rank = role.rank,
                 .size = role.size,
                 .elastic = role.elastic ? 1 : 0,
                 .alone = job->is_alone() ? 1 : 0,
                 .id = handle.id.c_str(),
                 .output = handle.output.c_str(),
                 .dialect = handle.dialect.c_str(),
                 .authenticated = job->is_authenticated() ? 1 : 0};
  handle.job = std::move(job);
  registry().current = &handle;
  return &handle;
}

OpenOptions open_options(const cohort_world_options& given) {
  OpenOptions options;
  if (given.ranks != nullptr) {
    if (given.rank_count <= 0)
      throw InvalidInput(fmt::format("rank_count is {}", given.rank_count),
                         {.advice = "Give one rank at least, or no ranks for all."});
    options.ranks.emplace(given.ranks, given.ranks + given.rank_count);
  }
  options.timeout = timeout_of(given.timeout_ms);
  if (given.fusion_bytes != 0)
    options.world.fusion_bytes =
        given.fusion_bytes < 0 ? 0 : static_cast<std::size_t>(given.fusion_bytes);
  if (given.cycle_us != 0)
    options.world.cycle = time_of_us(std::max<std::int64_t>(given.cycle_us, 0));
  options.world.stall.warning = time_of_s(given.stall_warning_s == 0 ? 60 : given.stall_warning_s);
  options.world.stall.shutdown = time_of_s(given.stall_shutdown_s);
  options.stage = given.stage;
  if (given.why != nullptr) options.why = given.why;
  return options;
}

void close_world(cohort_world* handle) {
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(handle->mutex);
    world = std::move(handle->world);
  }
  if (world) world->close();
}

}  // namespace

}  // namespace cohort::capi

using namespace cohort::capi;

extern "C" {

cohort_status cohort_job_join(const cohort_join_options* options, cohort_job** job,
                              cohort_error** error) {
  return guarded(error, [&] {
    require(job, "job");
    *job = nullptr;
    const CallerWaits waits;
    const std::lock_guard joining(registry().joining);
    *job = current_job();
    if (*job != nullptr) return;
    *job = add_job(std::make_shared<Job>(timeout_of(read_options(options).timeout_ms),
                                         worlds_opened_before()));
  });
}

cohort_status cohort_job_leave(cohort_job* job, int32_t succeeded, int64_t timeout_ms,
                               cohort_error** error) {
  return guarded(error, [&] {
    require(job, "job");
    const CallerWaits waits;
    const std::lock_guard opening(job->opening);
    std::shared_ptr<Job> leaving;
    cohort_world* world = nullptr;
    {
      const std::lock_guard lock(job->mutex);
      leaving = std::move(job->job);
      world = job->world;
    }
    if (!leaving) throw StatusError({COHORT_CLOSED, "this process has left its job"});
    {
      const std::lock_guard lock(registry().mutex);
      if (registry().current == job) registry().current = nullptr;
      registry().opened = leaving->opened();
    }
    if (world != nullptr) close_world(world);
    leaving->leave(succeeded != 0, cohort::Deadline::after(timeout_of(timeout_ms)));
  });
}

cohort_status cohort_job_describe(cohort_job* job, cohort_job_info* info, cohort_error** error) {
  return guarded(error, [&] {
    require(job, "job");
    job->get();
    write_info(job->info, info);
  });
}

cohort_status cohort_world_open(cohort_job* job, const cohort_world_options* options,
                                cohort_world** world, cohort_error** error) {
  return guarded(error, [&] {
    require(job, "job");
    require(world, "world");
    *world = nullptr;
    const CallerWaits waits;
    const OpenOptions asked = open_options(read_options(options));
    const std::lock_guard opening(job->opening);
    const auto part = job->get();
    auto opened = part->open(asked);
    const Place& place = opened->place();
    cohort_world* handle = nullptr;
    {
      const std::lock_guard lock(registry().mutex);
      handle = &registry().worlds.emplace_back();
    }
    handle->info = {.struct_size = sizeof(cohort_world_info),
                    .rank = opened->rank(),
                    .size = opened->size(),
                    .local_rank = place.local_rank,
                    .local_size = place.local_size,
                    .cross_rank = place.cross_rank,
                    .cross_size = place.cross_size,
                    .homogeneous = place.homogeneous ? 1 : 0,
                    .view = part->view(),
                    .newcomer = part->is_newcomer() ? 1 : 0};
    handle->world = std::move(opened);
    const std::lock_guard lock(job->mutex);
    job->world = handle;
    *world = handle;
  });
}

void cohort_world_close(cohort_world* world) {
  guarded(nullptr, [&] {
    if (world != nullptr) close_world(world);
  });
}

cohort_status cohort_world_describe(cohort_world* world, cohort_world_info* info,
                                    cohort_error** error) {
  return guarded(error, [&] {
    require(world, "world");
    world->get();
    write_info(world->info, info);
  });
}

uint64_t cohort_elastic_planned_change(cohort_job* job) {
  std::uint64_t number = 0;
  guarded(nullptr, [&] {
    require(job, "job");
    number = job->get()->planned_change();
  });
  return number;
}

void cohort_elastic_committed(cohort_job* job, int64_t stage, int64_t step,
                              double samples_per_second) {
  guarded(nullptr, [&] {
    require(job, "job");
    job->get()->committed(stage, step, samples_per_second);
  });
}

cohort_status cohort_elastic_finish(cohort_job* job, int64_t stage, int64_t timeout_ms,
                                    int32_t* over, cohort_error** error) {
  return guarded(error, [&] {
    require(job, "job");
    require(over, "over");
    const CallerWaits waits;
    *over = job->get()->finish(stage, cohort::Deadline::after(timeout_of(timeout_ms))) ? 1 : 0;
  });
}

}  // extern "C"
