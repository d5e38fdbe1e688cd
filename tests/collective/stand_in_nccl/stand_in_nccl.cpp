// NCCL's functions, as far as Cohort uses them, and those of controls.h.
#include <cstring>
#include <map>
#include <set>

#include "controls.h"
#include "world.h"

namespace cohort::collective::nccl::testing {

namespace {

struct Process {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<World>> worlds;
  std::uint64_t next_id = 1;
  std::set<Member*> members;
};

Process& process() {
  static Process only;
  return only;
}

Controls& controls() {
  static Controls only;
  return only;
}

// Of the calling thread, as NCCL's.
thread_local int version_here = 0;
thread_local int depth = 0;
thread_local std::map<Member*, Batch> grouped;

Member* member_of(Comm comm) { return reinterpret_cast<Member*>(comm); }

Result end_group() {
  if (--depth > 0) return Result::success;
  ++controls().group_calls;
  Result result = Result::success;
  for (auto& [member, batch] : grouped) {
    {
      const std::lock_guard lock(member->world->mutex);
      member->polls = controls().never_ready ? 1 : controls().polls.load();
      if (member->polls > 0) result = Result::in_progress;
      member->put(std::move(batch));
    }
    if (controls().launches_block) member->block_launch();
  }
  grouped.clear();
  return result;
}

Result enqueue(Comm comm, DeviceStream stream, const Task& task) {
  Member* member = member_of(comm);
  {
    // NCCL: "Attempt to use communicator before the previous operation returned ncclSuccess".
    const std::lock_guard lock(member->world->mutex);
    if (member->polls > 0) return Result::invalid_argument;
    if (member->failed != Result::success) return member->failed;
  }
  ++depth;
  Batch& batch = grouped[member];
  batch.tasks.push_back(task);
  batch.stream = static_cast<Stream*>(stream);
  return end_group();
}

Result join(Comm* comm, int size, const UniqueId& id, int rank) {
  std::uint64_t key = 0;
  std::memcpy(&key, id.bytes, sizeof key);
  const std::lock_guard process_lock(process().mutex);
  auto& world = process().worlds[key];
  if (world == nullptr) world = std::make_shared<World>(size);
  auto* member = new Member(world, rank);
  process().members.insert(member);
  ++controls().alive;
  *comm = reinterpret_cast<Comm>(member);
  const std::lock_guard lock(world->mutex);
  member->polls = 1 + controls().polls;
  if (controls().failing_rank == rank)
    member->failed = Result::system_error;
  else
    ++world->connected;
  return Result::in_progress;
}

Result state_of(Member& member) {
  const std::lock_guard lock(member.world->mutex);
  if (member.failed != Result::success) return member.failed;
  if (controls().never_ready) return Result::in_progress;
  if (!member.init_done && member.world->connected < member.world->size)
    return member.world->lost_one ? Result::remote_error : Result::in_progress;
  member.init_done = true;
  if (member.polls == 0) return Result::success;
  return --member.polls == 0 ? Result::success : Result::in_progress;
}

}  // namespace

extern "C" {

Controls* stand_in_controls() { return &controls(); }
void stand_in_set_version(int version) { version_here = version; }
void* stand_in_stream() { return new Stream; }
bool stand_in_synchronize(void* stream) { return static_cast<Stream*>(stream)->synchronize(); }
void stand_in_free_stream(void* stream) { delete static_cast<Stream*>(stream); }

void stand_in_fail(int rank, int result) {
  const std::lock_guard process_lock(process().mutex);
  for (Member* member : process().members)
    if (member->rank == rank) {
      const std::lock_guard lock(member->world->mutex);
      member->failed = static_cast<Result>(result);
    }
}

Result ncclGetVersion(int* version) {
  *version = version_here != 0 ? version_here : controls().version.load();
  return Result::success;
}

Result ncclGetUniqueId(UniqueId* id) {
  if (controls().no_id) return Result::system_error;
  const std::lock_guard lock(process().mutex);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::memcpy(id->bytes, &process().next_id, sizeof process().next_id);
  ++process().next_id;
  return Result::success;
}

Result ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  const bool known = config->magic == 0xcafebeef && config->bytes == sizeof(Config) &&
                     config->version >= 21400 && config->blocking == 0;
  return known ? join(comm, size, id, rank) : Result::invalid_argument;
}

Result ncclCommGetAsyncError(Comm comm, Result* state) {
  *state = state_of(*member_of(comm));
  return Result::success;
}

Result ncclCommAbort(Comm comm) {
  Member* member = member_of(comm);
  {
    const std::lock_guard lock(process().mutex);
    if (process().members.erase(member) == 0) return Result::invalid_argument;
  }
  member->stop();
  member->wait_for_launches();
  controls().wait_for_graphs();
  delete member;
  --controls().alive;
  return Result::success;
}

const char* ncclGetErrorString(Result result) {
  switch (result) {
    case Result::system_error:
      return "unhandled system error";
    case Result::remote_error:
      return "remote process exited or there was a network error";
    case Result::invalid_usage:
      return "invalid usage";
    default:
      return "another result";
  }
}

const char* ncclGetLastError(Comm) { return "the stand-in's last error"; }

Result ncclGroupStart() {
  ++depth;
  return Result::success;
}

Result ncclGroupEnd() { return depth == 0 ? Result::invalid_usage : end_group(); }

Result ncclAllReduce(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                     DeviceStream stream) {
  return enqueue(comm, stream, {Kind::all_reduce, in, out, count, type, op});
}

Result ncclReduceScatter(const void* in, void* out, std::size_t count, Type type, Op op, Comm comm,
                         DeviceStream stream) {
  return enqueue(comm, stream, {Kind::reduce_scatter, in, out, count, type, op});
}

Result ncclAllGather(const void* in, void* out, std::size_t count, Type type, Comm comm,
                     DeviceStream stream) {
  return enqueue(comm, stream, {Kind::all_gather, in, out, count, type, Op::sum});
}

Result ncclBroadcast(const void* in, void* out, std::size_t count, Type type, int root, Comm comm,
                     DeviceStream stream) {
  return enqueue(comm, stream, {Kind::broadcast, in, out, count, type, Op::sum, root});
}

Result ncclSend(const void* data, std::size_t count, Type type, int peer, Comm comm,
                DeviceStream stream) {
  return enqueue(comm, stream, {Kind::send, data, nullptr, count, type, Op::sum, peer});
}

Result ncclRecv(void* data, std::size_t count, Type type, int peer, Comm comm,
                DeviceStream stream) {
  return enqueue(comm, stream, {Kind::receive, nullptr, data, count, type, Op::sum, peer});
}

}  // extern "C"

}  // namespace cohort::collective::nccl::testing
