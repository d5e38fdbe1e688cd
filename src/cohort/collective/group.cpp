#include "cohort/collective/group.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cohort/base/log/log.h"
#include "cohort/base/process/wait_interrupt.h"
#include "cohort/base/text.h"
#include "cohort/collective/arguments.h"
#include "cohort/collective/backend/backend.h"
#include "cohort/collective/backend/solo.h"
#include "cohort/collective/device/device_group.h"
#include "cohort/collective/executor.h"
#include "cohort/collective/work_state.h"

namespace cohort::collective {

Buffer::Buffer(std::shared_ptr<Backend> backend, std::byte* memory, std::size_t bytes)
    : backend_(std::move(backend)), memory_(memory), bytes_(bytes) {}
Buffer::Buffer(Buffer&& other) noexcept
    : backend_(std::move(other.backend_)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  backend_ = std::move(other.backend_);
  memory_ = std::exchange(other.memory_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}
Buffer::~Buffer() { reset(); }
void Buffer::reset() {
  if (memory_ != nullptr) backend_->free(memory_);
  memory_ = nullptr;
}

struct Group::State {
  State(std::shared_ptr<Backend> b, std::chrono::milliseconds t)
      : backend(std::move(b)), timeout(t) {}

  std::shared_ptr<Backend> backend;
  std::chrono::milliseconds timeout;

  std::mutex device_mutex;
  std::unique_ptr<DeviceGroup> device;  // set once, before others use it
  std::optional<std::string> broken;    // why, where the group broke

  std::mutex mutex;  // held while a collective runs
  std::uint64_t sequence = 0;
  std::map<std::vector<int>, int> subgroups_made;

  std::mutex works_mutex;
  std::deque<std::weak_ptr<WorkState>> works;  // asynchronous calls that may be under way

  Executor collectives;  // asynchronous ones, in order
  Executor messages;     // finishes asynchronous messages when no thread waits for them

  Deadline deadline(const std::optional<Deadline>& given) const {
    return given ? *given : Deadline::after(timeout);
  }
  // Fills in what "in place" means for this call.
  void normalise(Call& call) const;
  void execute(const Call& call, Deadline deadline);
  void end_device(const std::string& reason) noexcept;
  void run_now(Call call, Deadline deadline);
  void run(Call call, const std::optional<Deadline>& given);

  void remember(const std::shared_ptr<WorkState>& work);
  bool has_work_under_way();
  std::shared_ptr<QueuedWork> enqueue(std::function<void()> job);  // a collective
  Work follow(std::unique_ptr<transport::Transfer> transfer, std::size_t bytes, Deadline deadline);
};

// An executor is busy a moment longer than its calls: these know better what is over.
void Group::State::remember(const std::shared_ptr<WorkState>& work) {
  std::lock_guard lock(works_mutex);
  const auto is_over = [](const std::weak_ptr<WorkState>& known) {
    const auto one = known.lock();
    return !one || one->poll();
  };
  while (!works.empty() && is_over(works.front())) works.pop_front();
  works.push_back(work);
}

bool Group::State::has_work_under_way() {
  std::lock_guard lock(works_mutex);
  return std::any_of(works.begin(), works.end(), [](const std::weak_ptr<WorkState>& known) {
    const auto one = known.lock();
    return one && !one->poll();
  });
}

std::shared_ptr<QueuedWork> Group::State::enqueue(std::function<void()> job) {
  auto work = std::make_shared<QueuedWork>(std::move(job));
  remember(work);
  collectives.add([work] { work->run(); });
  return work;
}

Work Group::State::follow(std::unique_ptr<transport::Transfer> transfer, std::size_t bytes,
                          Deadline when) {
  auto work = std::make_shared<TransferWork>(backend, std::move(transfer), bytes, when);
  remember(work);
  messages.add([work] { work->finish(); });
  return Work(work);
}

void Group::State::normalise(Call& call) const {
  const std::size_t element = size_of(call.dtype);
  if (call.in != nullptr || call.out == nullptr) return;
  std::size_t before = 0;
  switch (call.kind) {
    case CallKind::gather:
      if (call.root != backend->rank()) return;
      [[fallthrough]];
    case CallKind::all_gather:
      before = call.count * static_cast<std::size_t>(backend->rank());
      break;
    case CallKind::all_gather_v:
      for (int i = 0; i < backend->rank(); ++i) before += call.receive_counts[i];
      break;
    case CallKind::broadcast:
      break;
    default:
      return;
  }
  call.in = static_cast<std::byte*>(call.out) + before * element;
}

void Group::State::end_device(const std::string& reason) noexcept {
  const std::lock_guard lock(device_mutex);
  if (!broken) broken = reason;
  if (device) device->abort(reason);
}

void Group::State::execute(const Call& call, Deadline when) {
  try {
    backend->execute(call, when);
  } catch (const std::exception& error) {
    end_device(error.what());
    throw;
  }
}

void Group::State::run_now(Call call, Deadline when) {
  std::lock_guard lock(mutex);
  call.sequence = ++sequence;
  const std::size_t element = size_of(call.dtype);
  const std::size_t run = call.count * element;
  const auto n = static_cast<std::size_t>(backend->size());
  const bool in_place = call.in == call.out && call.in != nullptr && n > 1;

  if (in_place && (call.kind == CallKind::reduce_scatter ||
                   (call.kind == CallKind::scatter && call.root == backend->rank()))) {
    // This rank's own run is the one that no peer reads: the result goes there first.
    std::byte* start = static_cast<std::byte*>(call.out);
    call.out = start + run * static_cast<std::size_t>(backend->rank());
    execute(call, when);
    if (call.out != start) std::memmove(start, call.out, run);
    return;
  }
  if (in_place && (call.kind == CallKind::all_to_all || call.kind == CallKind::all_to_all_v)) {
    const std::size_t bytes = call.kind == CallKind::all_to_all ? run * n : call.count * element;
    const auto* from = static_cast<const std::byte*>(call.in);
    const std::vector<std::byte> copy(from, from + bytes);
    call.in = copy.data();
    execute(call, when);
    return;
  }
  execute(call, when);
}

void Group::State::run(Call call, const std::optional<Deadline>& given) {
  normalise(call);
  check_arguments(call, backend->rank(), backend->size());
  const Deadline when = deadline(given);
  if (collectives.idle() || collectives.runs_here()) return run_now(call, when);
  // The call has its own deadline.
  const auto work = enqueue([this, call, when] { run_now(call, when); });
  try {
    work->wait(Deadline::never());
  } catch (const Interrupted&) {
    backend->abort("it was interrupted");
    // The caller's memory is in use until then.
    try {
      work->wait(Deadline::never());
    } catch (const Error& error) {
      log::debug("an interrupted call ended: {}", error.message());
    }
    throw;
  }
}

Group::Group(std::shared_ptr<Backend> backend, std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>(std::move(backend), timeout)) {}

Group::~Group() {
  // Calls under way use memory that the caller is about to lose.
  if (state_->has_work_under_way())
    state_->backend->abort("it was destroyed with asynchronous calls under way");
  state_->backend->leave();
  state_->collectives.join();  // its jobs use this object
  state_->device.reset();
}

int Group::rank() const { return state_->backend->rank(); }
int Group::size() const { return state_->backend->size(); }
std::string Group::backend_name() const { return state_->backend->name(); }

namespace {

Call make_call(CallKind kind, const void* in, void* out, std::size_t count, DataType dtype,
               int root = 0) {
  Call call;
  call.kind = kind;
  call.in = in;
  call.out = out;
  call.count = count;
  call.dtype = dtype;
  call.root = root;
  return call;
}

Call make_reduction(CallKind kind, const void* in, void* out, std::size_t count, DataType dtype,
                    const ReduceOptions& options, int root = 0) {
  Call call = make_call(kind, in, out, count, dtype, root);
  call.op = options.op;
  call.pre_scale = options.pre_scale;
  call.post_scale = options.post_scale;
  return call;
}

}  // namespace

void Group::barrier(CallOptions options) { state_->run(Call{}, options.deadline); }

void Group::all_reduce(const void* in, void* out, std::size_t count, DataType dtype,
                       ReduceOptions options) {
  state_->run(make_reduction(CallKind::all_reduce, in, out, count, dtype, options),
              options.deadline);
}

void Group::reduce(const void* in, void* out, std::size_t count, DataType dtype, int root,
                   ReduceOptions options) {
  state_->run(make_reduction(CallKind::reduce, in, out, count, dtype, options, root),
              options.deadline);
}

void Group::broadcast(void* data, std::size_t count, DataType dtype, int root,
                      CallOptions options) {
  state_->run(make_call(CallKind::broadcast, data, data, count, dtype, root), options.deadline);
}

void Group::all_gather(const void* in, void* out, std::size_t count, DataType dtype,
                       CallOptions options) {
  state_->run(make_call(CallKind::all_gather, in, out, count, dtype), options.deadline);
}

void Group::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                         DataType dtype, CallOptions options) {
  const auto self = static_cast<std::size_t>(rank());
  Call call =
      make_call(CallKind::all_gather_v, in, out, self < counts.size() ? counts[self] : 0, dtype);
  call.receive_counts = counts;
  state_->run(call, options.deadline);
}

void Group::reduce_scatter(const void* in, void* out, std::size_t count, DataType dtype,
                           ReduceOptions options) {
  state_->run(make_reduction(CallKind::reduce_scatter, in, out, count, dtype, options),
              options.deadline);
}

void Group::all_to_all(const void* in, void* out, std::size_t count, DataType dtype,
                       CallOptions options) {
  state_->run(make_call(CallKind::all_to_all, in, out, count, dtype), options.deadline);
}

void Group::all_to_all_v(const void* in, std::span<const std::size_t> send_counts, void* out,
                         std::span<const std::size_t> receive_counts, DataType dtype,
                         CallOptions options) {
  std::size_t total = 0;
  for (const std::size_t count : send_counts) total += count;
  Call call = make_call(CallKind::all_to_all_v, in, out, total, dtype);
  call.send_counts = send_counts;
  call.receive_counts = receive_counts;
  state_->run(call, options.deadline);
}

void Group::gather(const void* in, void* out, std::size_t count, DataType dtype, int root,
                   CallOptions options) {
  state_->run(make_call(CallKind::gather, in, out, count, dtype, root), options.deadline);
}

void Group::scatter(const void* in, void* out, std::size_t count, DataType dtype, int root,
                    CallOptions options) {
  state_->run(make_call(CallKind::scatter, in, out, count, dtype, root), options.deadline);
}

Work Group::async(Call call, CallOptions options) {
  state_->normalise(call);
  check_arguments(call, rank(), size());
  State& state = *state_;
  const Deadline when = state.deadline(options.deadline);
  return Work(state.enqueue([&state, call, when] { state.run_now(call, when); }));
}

Work Group::run_async(std::function<void(Group& group)> job) {
  return Work(state_->enqueue([this, job = std::move(job)] { job(*this); }));
}

Work Group::all_reduce_async(const void* in, void* out, std::size_t count, DataType dtype,
                             ReduceOptions options) {
  return async(make_reduction(CallKind::all_reduce, in, out, count, dtype, options),
               {options.deadline});
}

void Group::send(const void* data, std::size_t count, DataType dtype, int peer,
                 CallOptions options) {
  check_peer(peer, rank(), size());
  const std::size_t bytes = count * size_of(dtype);
  state_->backend->send(peer, {static_cast<const std::byte*>(data), bytes})
      ->wait(bytes, state_->deadline(options.deadline));
}

void Group::recv(void* data, std::size_t count, DataType dtype, int peer, CallOptions options) {
  check_peer(peer, rank(), size());
  const std::size_t bytes = count * size_of(dtype);
  state_->backend->receive(peer, {static_cast<std::byte*>(data), bytes})
      ->wait(bytes, state_->deadline(options.deadline));
}

Work Group::send_async(const void* data, std::size_t count, DataType dtype, int peer,
                       CallOptions options) {
  check_peer(peer, rank(), size());
  const std::size_t bytes = count * size_of(dtype);
  return state_->follow(state_->backend->send(peer, {static_cast<const std::byte*>(data), bytes}),
                        bytes, state_->deadline(options.deadline));
}

Work Group::recv_async(void* data, std::size_t count, DataType dtype, int peer,
                       CallOptions options) {
  check_peer(peer, rank(), size());
  const std::size_t bytes = count * size_of(dtype);
  return state_->follow(state_->backend->receive(peer, {static_cast<std::byte*>(data), bytes}),
                        bytes, state_->deadline(options.deadline));
}

Buffer Group::allocate(std::size_t bytes) {
  return Buffer(state_->backend, state_->backend->allocate(bytes), bytes);
}

std::unique_ptr<Group> Group::subgroup(std::span<const int> ranks, CallOptions options) {
  std::vector<int> members(ranks.begin(), ranks.end());
  std::sort(members.begin(), members.end());
  if (members.empty() || members.front() < 0 || members.back() >= size() ||
      std::adjacent_find(members.begin(), members.end()) != members.end())
    throw InvalidInput("the ranks of a sub-group must be different ranks of its group");
  if (!std::binary_search(members.begin(), members.end(), rank()))
    throw InvalidInput(fmt::format("rank {} is not in the sub-group that it asks for", rank()),
                       {.advice = "Call subgroup() on its members only."});
  if (members.size() == 1) return std::make_unique<Group>(make_solo_backend(), state_->timeout);
  std::vector<std::string> names;
  for (const int member : members) names.push_back(std::to_string(member));
  int number = 0;
  {
    std::lock_guard lock(state_->mutex);
    number = state_->subgroups_made[members]++;
  }
  const std::string id = fmt::format("sub/{}/{}", join(names, "-"), number);
  std::shared_ptr<Backend> backend =
      state_->backend->subgroup(members, id, state_->deadline(options.deadline));
  return std::make_unique<Group>(std::move(backend), state_->timeout);
}

std::unique_ptr<Group> Group::split(int color, CallOptions options) {
  const CallOptions until{state_->deadline(options.deadline)};
  std::vector<std::int32_t> colors(static_cast<std::size_t>(size()));
  const std::int32_t own = color;
  all_gather(&own, colors.data(), 1, DataType::i32, until);
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int i = 0; i < size(); ++i)
    if (colors[i] == own) members.push_back(i);
  return subgroup(members, until);
}

void Group::use_device(std::unique_ptr<DeviceGroup> device) {
  const std::lock_guard lock(state_->device_mutex);
  state_->device = std::move(device);
  if (state_->broken) state_->device->abort(*state_->broken);
}
DeviceGroup* Group::device() const { return state_->device.get(); }

std::optional<std::string> Group::failure() const {
  const auto failure = state_->backend->failure();
  return failure ? std::optional(failure->text) : std::nullopt;
}

void Group::abort(const std::string& reason) noexcept {
  state_->backend->abort(reason);
  state_->end_device(reason);
}

}  // namespace cohort::collective
