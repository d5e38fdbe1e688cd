#include "world.h"

#include <cstring>

#include "arithmetic.h"

namespace cohort::collective::nccl::testing {

namespace {

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }

// With all ranks' arguments: what the collective leaves in every rank's memory.
void execute(const std::vector<Task>& tasks) {
  const Task& first = tasks[0];
  const std::size_t run = first.count * bytes_of(first.type);
  std::vector<const std::byte*> inputs;
  for (const Task& task : tasks) inputs.push_back(bytes(task.in));
  std::vector<std::vector<std::byte>> results;
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    std::vector<std::byte> result(first.kind == Kind::all_gather ? run * tasks.size() : run);
    auto here = inputs;
    switch (first.kind) {
      case Kind::reduce_scatter:
        for (const std::byte*& input : here) input += rank * run;
        [[fallthrough]];
      case Kind::all_reduce:
        reduce(here, result.data(), first.count, first.type, first.op);
        break;
      case Kind::all_gather:
        for (std::size_t from = 0; from < tasks.size(); ++from)
          std::memcpy(result.data() + from * run, inputs[from], run);
        break;
      default:
        std::memcpy(result.data(), inputs[static_cast<std::size_t>(first.peer)], run);
    }
    results.push_back(std::move(result));
  }
  for (std::size_t rank = 0; rank < tasks.size(); ++rank)
    std::memcpy(tasks[rank].out, results[rank].data(), results[rank].size());
}

bool same(const Task& a, const Task& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.op == b.op &&
         a.peer == b.peer;
}

}  // namespace

void Stream::add() {
  const std::lock_guard lock(mutex);
  ++pending;
}

void Stream::done(bool completed) {
  const std::lock_guard lock(mutex);
  --pending;
  aborted = aborted || !completed;
  changed.notify_all();
}

bool Stream::synchronize() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return pending == 0; });
  return !aborted;
}

Member::Member(std::shared_ptr<World> joined, int number)
    : world(std::move(joined)), rank(number), worker_([this] { work(); }) {}

Member::~Member() {
  stop();
  worker_.join();
}

void Member::stop() {
  const Lock lock(world->mutex);
  aborted_ = true;
  world->lost_one = true;
  world->changed.notify_all();
}

void Member::put(Batch batch) {
  if (batch.stream != nullptr) batch.stream->add();
  queue_.push_back(std::move(batch));
  world->changed.notify_all();
}

void Member::block_launch() {
  Lock lock(world->mutex);
  ++blocked_;
  world->changed.wait(lock, [this] { return aborted_; });
  --blocked_;
  world->changed.notify_all();
}

void Member::wait_for_launches() {
  Lock lock(world->mutex);
  world->changed.wait(lock, [this] { return blocked_ == 0; });
}

void Member::work() {
  Lock lock(world->mutex);
  while (true) {
    world->changed.wait(lock, [&] { return aborted_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Batch batch = std::move(queue_.front());
    queue_.pop_front();
    const bool completed = run(lock, batch);
    if (batch.stream != nullptr) batch.stream->done(completed);
  }
}

bool Member::wait(Lock& lock, const bool& done) {
  world->changed.wait(lock, [&] { return done || aborted_; });
  return !aborted_;
}

bool Member::run(Lock& lock, const Batch& batch) {
  std::vector<std::shared_ptr<bool>> sent;
  for (const Task& task : batch.tasks)
    if (task.kind == Kind::send) {
      auto& queue = world->messages[{rank, task.peer}];
      queue.push_back({task});
      sent.push_back(queue.back().taken);
    }
  world->changed.notify_all();
  for (const Task& task : batch.tasks) {
    if (task.kind == Kind::send) continue;
    if (task.kind != Kind::receive) {
      if (!collective(lock, task)) return false;
      continue;
    }
    auto& queue = world->messages[{task.peer, rank}];
    world->changed.wait(lock, [&] { return aborted_ || (!queue.empty() && !world->lost_one); });
    if (aborted_) return false;
    const Message message = queue.front();
    queue.pop_front();
    if (message.task.count != task.count || message.task.type != task.type)
      failed = Result::invalid_usage;
    else
      std::memcpy(task.out, message.task.in, task.count * bytes_of(task.type));
    *message.taken = true;
    world->changed.notify_all();
  }
  for (const auto& taken : sent)
    if (!wait(lock, *taken)) return false;
  return true;
}

bool Member::collective(Lock& lock, const Task& task) {
  const std::uint64_t number = ++sequence_;
  Slot& slot = world->slots[number];
  slot.tasks.resize(static_cast<std::size_t>(world->size));
  slot.tasks[static_cast<std::size_t>(rank)] = task;
  if (++slot.arrived == world->size && !world->lost_one) {
    for (const Task& other : slot.tasks)
      if (!same(other, task)) failed = Result::invalid_usage;
    if (failed == Result::success) execute(slot.tasks);
    slot.done = true;
    world->changed.notify_all();
  }
  if (!wait(lock, slot.done)) return false;
  if (++slot.left == world->size) world->slots.erase(number);
  return true;
}

}  // namespace cohort::collective::nccl::testing
