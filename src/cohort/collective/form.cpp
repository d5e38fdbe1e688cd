#include "cohort/collective/form.h"

#include <unistd.h>

#include <map>

#include "cohort/base/error.h"
#include "cohort/base/process/last_word.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/collective/backend/solo.h"
#include "cohort/collective/native/backend.h"
#include "cohort/transport/host.h"
#include "cohort/transport/inproc/arena.h"

namespace cohort::collective {

namespace {

struct Introduction {
  std::string task;
  std::string host;
  std::string identity;
  std::string tuning;   // a table, from rank 0
  std::string process;  // process_identity()
  std::string memory;   // CarriedMemory::claim()
};

// The ranks that have joined so far, and whether forming the group still makes sense.
class Arrivals {
 public:
  Arrivals(const FormOptions& options) : options_(options) {}

  void add(Introduction introduction) { all_.push_back(std::move(introduction)); }
  const std::vector<Introduction>& all() const { return all_; }
  void check() const {
    if (options_.cancelled && options_.cancelled())
      throw PeerError(fmt::format("forming the group '{}' was broken off", options_.id));
    for (std::size_t rank = 0; rank < all_.size(); ++rank)
      if (process_ended(all_[rank].process))
        throw PeerError(
            fmt::format("{} died while the group '{}' was formed",
                        Peer{static_cast<int>(rank), all_[rank].task, all_[rank].host}.name(),
                        options_.id),
            {.peer = all_[rank].task, .peer_rank = static_cast<int>(rank)});
  }

 private:
  const FormOptions& options_;
  std::vector<Introduction> all_;
};

std::string member_key(const std::string& id, int rank) {
  return fmt::format("{}/member/{}", id, rank);
}

void introduce(const Member& self, transport::Rendezvous& rendezvous, const FormOptions& options,
               Arrivals& arrivals, Deadline deadline) {
  const std::string& id = options.id;
  const std::string host = self.host.empty() ? transport::host_name() : self.host;
  const std::string identity =
      self.host_identity.empty() ? transport::host_identity() : self.host_identity;
  const std::string tuning = self.rank == 0 ? options.tuning.to_json(false) : "";
  rendezvous.set(member_key(id, self.rank),
                 join({self.task, host, identity, tuning, process_identity(::getpid()),
                       options.carried ? options.carried->claim() : ""},
                      "\n"),
                 deadline);
  for (int rank = 0; rank < self.size; ++rank) {
    std::vector<std::string> fields;
    try {
      fields = split(rendezvous.get(member_key(id, rank), deadline), '\n');
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("rank {} of {} did not join the group '{}'", rank, self.size, id),
          {.advice = "Look whether all tasks of the job were started."});
    }
    if (fields.size() != 6)
      throw ProtocolError(fmt::format("rank {} described itself in another format", rank),
                          {.advice = "Run the same version of Cohort on all hosts."});
    arrivals.add({fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]});
  }
}

Placement place(const std::vector<Introduction>& all) {
  Placement placement;
  std::map<std::string, int> hosts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    placement.peers.push_back({static_cast<int>(rank), all[rank].task, all[rank].host});
    placement.host_of.push_back(
        hosts.try_emplace(all[rank].identity, static_cast<int>(hosts.size())).first->second);
  }
  return placement;
}

}  // namespace

std::unique_ptr<Group> make_group_of_one() {
  return std::make_unique<Group>(make_solo_backend(), std::chrono::minutes(5));
}

std::vector<std::unique_ptr<Group>> make_inproc_groups(int size, std::chrono::milliseconds timeout,
                                                       const TuningTable& tuning) {
  std::vector<std::unique_ptr<Group>> groups;
  if (size == 1) {
    groups.push_back(std::make_unique<Group>(make_solo_backend(), timeout));
    return groups;
  }
  const auto arenas = transport::inproc::make_arenas(size);
  const auto rendezvous = std::make_shared<transport::MemoryRendezvous>();
  std::vector<std::shared_ptr<Backend>> backends(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      NativeBackend::Parts parts{.id = "inproc",
                                 .rank = rank,
                                 .placement = {},
                                 .arena = arenas[rank],
                                 .arena_ranks = {},
                                 .rendezvous = rendezvous,
                                 .connect = {},
                                 .tuning = tuning,
                                 .check = {}};
      for (int i = 0; i < size; ++i) {
        parts.placement.peers.push_back({i, "", "this process"});
        parts.placement.host_of.push_back(0);
        parts.arena_ranks.push_back(i);
      }
      backends[rank] = std::make_shared<NativeBackend>(std::move(parts), Deadline::never());
    });
  for (std::thread& thread : threads) thread.join();
  for (auto& backend : backends)
    groups.push_back(std::make_unique<Group>(std::move(backend), timeout));
  return groups;
}

std::unique_ptr<Group> form_group(const Member& self,
                                  std::shared_ptr<transport::Rendezvous> rendezvous,
                                  const FormOptions& options, Deadline deadline) {
  if (self.size < 1 || self.rank < 0 || self.rank >= self.size)
    throw InvalidInput(fmt::format("rank {} of {} is not a rank", self.rank, self.size));
  if (self.size == 1) {
    forget_lost_peer();
    if (options.carried) options.carried->reset();
    return std::make_unique<Group>(make_solo_backend(), options.timeout);
  }
  Arrivals arrivals(options);
  const Check check = [&] { arrivals.check(); };
  const auto checked = std::make_shared<transport::CheckedRendezvous>(rendezvous, check);
  introduce(self, *checked, options, arrivals, deadline);
  Placement placement = place(arrivals.all());
  if (placement.hosts() > 1 && !options.connect)
    throw InvalidInput(
        fmt::format("the ranks of '{}' run on {} hosts, and FormOptions::connect is empty",
                    options.id, placement.hosts()),
        {.advice = "Set it to a function that makes a messenger between hosts (use_network)."});
  const int host = placement.host_of[self.rank];
  const std::vector<int> local = placement.ranks_on(host);
  NativeBackend::Parts parts{
      .id = options.id,
      .rank = self.rank,
      .placement = std::move(placement),
      .arena = nullptr,
      .arena_ranks = {},
      .rendezvous = checked,
      .connect = {},
      .tuning = TuningTable::from_json(arrivals.all()[0].tuning, "rank 0's tuning"),
      .check = check};
  transport::shm::JoinOptions join_options{.key = fmt::format("{}/host/{}", options.id, host),
                                           .rank = 0,
                                           .size = static_cast<int>(local.size()),
                                           .part_bytes = options.part_bytes,
                                           .authenticate = options.authenticate,
                                           .check = check,
                                           .carried = options.carried};
  for (int i = 0; i < static_cast<int>(local.size()); ++i) {
    if (local[i] == self.rank) join_options.rank = i;
    parts.arena_ranks.push_back(i);
    join_options.claims.push_back(arrivals.all()[static_cast<std::size_t>(local[i])].memory);
  }
  parts.arena = transport::shm::join(*checked, join_options, deadline);
  if (options.connect)
    parts.connect = [connect = options.connect, self](int rank, int size, const std::string& id,
                                                      const auto& between_hosts) {
      Member member = self;
      member.rank = rank;
      member.size = size;
      return connect(member, id, between_hosts);
    };
  auto backend = std::make_shared<NativeBackend>(std::move(parts), deadline);
  checked->forget();
  forget_lost_peer();
  return std::make_unique<Group>(std::move(backend), options.timeout);
}

}  // namespace cohort::collective
