#include "cohort/collective/nccl/forming.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "cohort/base/text.h"
#include "cohort/collective/nccl/nccl_group.h"

namespace cohort::collective::nccl {

namespace {

constexpr int kFirstThatShares = 23000;
// Ranks that met the deadline in NCCL still tell each other.
constexpr std::chrono::seconds kToTell{5};

// What ranks tell each other: plain bytes, texts cut to fit.
struct Facts {
  std::array<std::byte, 16> device;
  std::int32_t version;
  std::uint8_t may_share;
  char problem[427];
};
struct Id {
  UniqueId id;
  char problem[384];
};
enum class Ending : std::int32_t { connected, failed, lost_peer, timed_out };
struct Outcome {
  Ending ending;
  char words[508];
};

template <std::size_t kSize>
void put_text(char (&to)[kSize], std::string_view text) {
  std::memset(to, 0, kSize);
  std::memcpy(to, text.data(), std::min(text.size(), kSize - 1));
}

template <typename Record>
std::vector<Record> gather(Group& group, const Record& own, Deadline deadline) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Record> all(static_cast<std::size_t>(group.size()));
  group.all_gather(&own, all.data(), sizeof(Record), DataType::u8, {.deadline = deadline});
  return all;
}

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  std::vector<std::string> names;
  for (const std::size_t rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

[[noreturn]] void refuse(const std::string& why, const std::string& advice) {
  throw InvalidInput(why, {.during = "forming a group over NCCL", .advice = advice});
}

void refuse_problems(const std::vector<Facts>& all) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].problem[0] != '\0') ranks.push_back(rank);
  if (!ranks.empty())
    refuse(
        fmt::format("{} cannot use NCCL: {}", ranks_text(ranks), all[ranks[0]].problem),
        "Give every rank a GPU and a libnccl.so.2 that the loader finds, or use another backend.");
}

void refuse_versions(const std::vector<Facts>& all) {
  const auto other = std::ranges::find_if(
      all, [&](const Facts& facts) { return facts.version != all[0].version; });
  if (other != all.end())
    refuse(fmt::format("ranks have different versions of NCCL: rank 0 {}, rank {} {}",
                       version_text(all[0].version), other - all.begin(),
                       version_text(other->version)),
           "Install the same version for all.");
}

void refuse_sharing(const std::vector<Facts>& all) {
  if (std::ranges::all_of(all, [](const Facts& facts) { return facts.may_share != 0; })) return;
  std::map<std::array<std::byte, 16>, std::vector<std::size_t>> ranks_on;
  for (std::size_t rank = 0; rank < all.size(); ++rank) ranks_on[all[rank].device].push_back(rank);
  for (const Facts& facts : all) {  // in the order of ranks
    const auto& ranks = ranks_on[facts.device];
    if (ranks.size() > 1)
      refuse(fmt::format("{} have one GPU, which NCCL {} does not allow here", ranks_text(ranks),
                         version_text(all[0].version)),
             "Give each rank a GPU of its own, or use NCCL 2.30 or newer with "
             "NCCL_MULTI_RANK_GPU_ENABLE=1 for every rank.");
  }
}

Facts facts_of(const Candidate& self) {
  Facts facts{};
  facts.device = self.device;
  put_text(facts.problem, self.problem);
  if (self.library == nullptr) {
    if (self.problem.empty()) put_text(facts.problem, "there is no NCCL");
  } else {
    facts.version = self.library->version();
    facts.may_share = may_share_gpu(facts.version) ? 1 : 0;
  }
  // Also by NCCL's own configuration file, which is not looked at.
  const char* blocking = std::getenv("NCCL_COMM_BLOCKING");
  if (blocking != nullptr && std::string_view(blocking) != "0")
    put_text(facts.problem,
             fmt::format("NCCL_COMM_BLOCKING is {}, so that NCCL's calls would wait for peers, and "
                         "nothing could end them: it must not be set",
                         blocking));
  return facts;
}

UniqueId share_id(Group& group, const NcclLibrary& library, Deadline deadline) {
  Id id{};
  if (group.rank() == 0) {
    const Result result = library.get_unique_id(&id.id);
    if (result != Result::success)
      put_text(id.problem, fmt::format("ncclGetUniqueId failed on rank 0: {}",
                                       words_of(library, result, nullptr)));
  }
  group.broadcast(&id, sizeof id, DataType::u8, 0, {.deadline = deadline});
  if (id.problem[0] != '\0')
    throw Error(id.problem, {.during = "forming a group over NCCL",
                             .advice = "Run with NCCL_DEBUG=WARN for NCCL's own account."});
  return id.id;
}

Outcome connect(Communicator& communicator, const Group& group, const UniqueId& id,
                Deadline deadline) {
  Outcome outcome{};
  const auto ended = [&](Ending ending, const Error& error) {
    outcome.ending = ending;
    put_text(outcome.words, error.message());
  };
  try {
    communicator.connect(group.size(), id, group.rank(), deadline);
  } catch (const TimeoutError& error) {
    ended(Ending::timed_out, error);
  } catch (const PeerError& error) {
    ended(Ending::lost_peer, error);
  } catch (const Error& error) {
    ended(Ending::failed, error);
  }
  return outcome;
}

// A failure of a rank's own is the likely cause of what the others met, so it is named first.
void throw_what_failed(const std::vector<Outcome>& all) {
  for (const Ending ending : {Ending::failed, Ending::lost_peer, Ending::timed_out}) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].ending == ending) ranks.push_back(rank);
    if (ranks.empty()) continue;
    const std::string text = fmt::format("NCCL did not connect {}: {}", ranks_text(ranks),
                                         static_cast<const char*>(all[ranks[0]].words));
    const ErrorContext context{.during = "forming a group over NCCL",
                               .advice = "Run with NCCL_DEBUG=WARN for NCCL's own account."};
    if (ending == Ending::timed_out) throw TimeoutError(text, context);
    throw Error(text, context);
  }
}

}  // namespace

bool may_share_gpu(int version) {
  const char* enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return version >= kFirstThatShares && enabled != nullptr && std::string_view(enabled) == "1";
}

std::unique_ptr<DeviceGroup> form(Group& group, const Candidate& self, Deadline deadline,
                                  std::chrono::milliseconds timeout) {
  const std::vector<Facts> all = gather(group, facts_of(self), deadline);
  refuse_problems(all);
  refuse_versions(all);
  refuse_sharing(all);
  const NcclLibrary& library = *self.library;
  const UniqueId id = share_id(group, library, deadline);
  auto communicator = std::make_unique<Communicator>(library, [&group] { return group.failure(); });
  const Outcome own = connect(*communicator, group, id, deadline);
  const auto told = deadline.is_never() ? deadline : Deadline::at(deadline.when() + kToTell);
  throw_what_failed(gather(group, own, told));
  return std::make_unique<NcclGroup>(library, std::move(communicator), group.rank(), group.size(),
                                     timeout);
}

}  // namespace cohort::collective::nccl
