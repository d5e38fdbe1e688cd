#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/collective/ipc/ipc.h"
#include "cohort/collective/ipc/ipc_group.h"
#include "cohort/transport/host.h"

namespace cohort::collective::ipc {

namespace {

// Text of a fixed size, so that ranks can exchange it in one call.
template <std::size_t kSize>
class ShortText {
 public:
  void set(const std::string& text) {
    const std::size_t length = std::min(text.size(), kSize - 1);
    std::memcpy(text_.data(), text.data(), length);
    text_[length] = '\0';
  }
  std::string get() const { return {text_.data(), ::strnlen(text_.data(), kSize)}; }

 private:
  std::array<char, kSize> text_{};
};

// What a rank tells the others about itself.
struct Introduction {
  ShortText<512> problem;  // why it cannot take part; empty: it can
  std::size_t host = 0;    // a hash of its identity
  std::uint64_t slot_bytes = 0;
  std::int64_t pid = 0;
  SharedBlock::Name block;  // rank 0's
  CudaDriver::Context context = nullptr;
  CudaDriver::Address staging = 0;
  CudaDriver::IpcHandle handle{};
};

template <typename T>
std::vector<T> exchange(Group& group, const T& own, Deadline deadline) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  group.all_gather(&own, all.data(), sizeof(T), DataType::u8, {.deadline = deadline});
  return all;
}

// What `action` fails with; empty: nothing.
std::string problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

// One line about all ranks that have a problem; empty: none has.
template <typename T>
std::string problems_of(const std::vector<T>& all) {
  std::string text;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (const std::string problem = all[rank].problem.get(); !problem.empty())
      text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", rank, problem);
  return text;
}

// Throws where the ranks cannot be a group, the same on all.
void check_introductions(const std::vector<Introduction>& all) {
  constexpr auto kAdvice = "Use NCCL, or collectives on the host's memory.";
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].host != all[0].host)
      throw InvalidInput(
          fmt::format("ranks 0 and {} run on different hosts, which CUDA IPC does not reach", rank),
          {.advice = kAdvice});
  if (const std::string problems = problems_of(all); !problems.empty())
    throw Error(fmt::format("no group on GPUs over CUDA IPC: {}", problems), {.advice = kAdvice});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].slot_bytes != all[0].slot_bytes)
      throw InvalidInput(fmt::format("rank {} has slots of {} bytes, rank 0 of {}", rank,
                                     all[rank].slot_bytes, all[0].slot_bytes),
                         {.advice = "Give all ranks the same options."});
    if (all[rank].slot_bytes / 64 < all.size())
      throw InvalidInput(fmt::format("slots of {} bytes are too small for {} ranks",
                                     all[rank].slot_bytes, all.size()),
                         {.advice = "Give at least 64 bytes a rank."});
  }
}

void open_peer(Endpoint& endpoint, int rank, const Introduction& peer) {
  Endpoint::Peer& entry = endpoint.peer(rank);
  if (peer.pid == ::getpid()) {
    if (peer.context != endpoint.context()) endpoint.driver().enable_peer_access(peer.context);
    entry.staging = peer.staging;
    return;
  }
  entry.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(peer.pid), 0)));
  if (!entry.process)
    throw SystemError(fmt::format("watch process {} (pidfd_open)", peer.pid), errno);
  entry.staging = endpoint.driver().open(peer.handle);
  entry.opened = true;
}

}  // namespace

std::string problem() {
  std::string why;
  const CudaDriver* driver = CudaDriver::find(&why);
  if (driver == nullptr) return why;
  return problem_of([&] {
    if (driver->current_context() == nullptr) throw Error("this thread has no current CUDA device");
  });
}

std::unique_ptr<DeviceGroup> form(Group& group, std::shared_ptr<DeviceArithmetic> arithmetic,
                                  Deadline deadline, const Options& options) {
  Endpoint::release_retired();
  Introduction own;
  std::unique_ptr<Endpoint> endpoint;
  std::shared_ptr<SharedBlock> block;
  own.host = std::hash<std::string>()(options.host_identity.empty() ? transport::host_identity()
                                                                    : options.host_identity);
  own.slot_bytes = options.slot_bytes;
  own.pid = ::getpid();
  own.problem.set(problem_of([&] {
    if (const std::string why = problem(); !why.empty()) throw Error(why);
    const CudaDriver& driver = *CudaDriver::find();
    endpoint = std::make_unique<Endpoint>(driver, group.rank(), group.size(), options.slot_bytes);
    own.context = endpoint->context();
    own.staging = endpoint->peer(group.rank()).staging;
    if (group.size() > 1) own.handle = driver.handle_of(own.staging);
    if (group.rank() == 0) {
      block = SharedBlock::create(group.size());
      own.block = block->name();
    }
  }));
  const std::vector<Introduction> all = exchange(group, own, deadline);
  check_introductions(all);

  struct Opened {
    ShortText<512> problem;
  } opened;
  opened.problem.set(problem_of([&] {
    endpoint->set_block(block ? block : SharedBlock::open(all[0].block, group.size()));
    for (int rank = 0; rank < group.size(); ++rank)
      if (rank != group.rank()) open_peer(*endpoint, rank, all[static_cast<std::size_t>(rank)]);
  }));
  const std::string problems = problems_of(exchange(group, opened, deadline));
  if (!problems.empty()) {
    endpoint->close_peers();
    group.barrier({deadline});  // before any rank frees what another has open
    throw Error(fmt::format("no group on GPUs over CUDA IPC: {}", problems),
                {.advice = "Use NCCL, or collectives on the host's memory."});
  }
  return std::make_unique<IpcGroup>(std::move(endpoint), std::move(arithmetic));
}

}  // namespace cohort::collective::ipc
