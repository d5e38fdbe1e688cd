#include "cohort/capi/world/job.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/collective/form.h"
#include "cohort/transport/host.h"
#include "cohort/transport/store_rendezvous.h"

namespace cohort::capi {

namespace {

// Workers of other kinds of programs must not enter one view with these.
const char* const kAgreement = R"({"api":"c","version":1})";
constexpr std::chrono::seconds kNoteLimit{5};

std::vector<std::int32_t> checked_ranks(const std::vector<std::int32_t>& ranks, int size) {
  if (ranks.empty() || ranks.front() < 0 || ranks.back() >= size ||
      !std::is_sorted(ranks.begin(), ranks.end()) ||
      std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
    throw InvalidInput(
        fmt::format("[{}] are not ranks of this job of {}", fmt::join(ranks, ", "), size),
        {.advice =
             fmt::format("Give different ranks from 0 to {}, in ascending order.", size - 1)});
  return ranks;
}

}  // namespace

Job::Job(std::chrono::milliseconds timeout, std::uint64_t opened) : opened_(opened) {
  const auto environment = cluster::Environment::of_this_process();
  const cluster::Role role = cluster::discover_role(environment, {});
  if (!role.is_training())
    throw InvalidInput(fmt::format("{} does not train, so it has no rank", to_string(role.task)),
                       {.advice = "Start this program as a worker or chief only."});
  network_ = collective::NetworkOptions::from(environment, role);
  auto options = cluster::SessionOptions::from(environment);
  options.timeout = timeout;
  session_ = cluster::Session::join(role, std::move(options));
  if (!network_.secret) network_.secret = session_->secret();
  if (role.elastic)
    elastic_ = std::make_unique<membership::ElasticMembership>(
        *session_, network_,
        membership::MemberInfo{.task = to_string(role.task),
                               .incarnation = role.incarnation,
                               .host = role.host(),
                               .pid = ::getpid()},
        *role.elastic);
}

Job::~Job() = default;

std::shared_ptr<World> Job::open(const OpenOptions& options) {
  if (const auto last = world_.lock(); last && !last->is_closed())
    throw InvalidInput("a world is open already", {.advice = "Close it first."});
  const Deadline deadline = Deadline::after(options.timeout);
  auto opened = elastic_ ? open_view(options, deadline)
                         : make_world(options, form(options, deadline), deadline);
  world_ = opened;
  return opened;
}

std::shared_ptr<World> Job::make_world(const OpenOptions& options,
                                       std::shared_ptr<collective::Group> group,
                                       Deadline deadline) {
  WorldOptions world = options.world;
  world.host = transport::host_identity();
  if (!session_->is_alone())
    world.stall = stall_notes(std::move(world.stall), fmt::format("{}-{}", opened_, view_));
  return std::make_shared<World>(std::move(group), world, deadline);
}

std::shared_ptr<collective::Group> Job::form(const OpenOptions& options, Deadline deadline) {
  const cluster::Role& role = session_->role();
  std::vector<std::int32_t> ranks;
  if (options.ranks) ranks = checked_ranks(*options.ranks, role.size);
  const std::uint64_t number = ++opened_;
  int rank = role.rank, size = role.size;
  if (options.ranks) {
    const auto own = std::lower_bound(ranks.begin(), ranks.end(), role.rank);
    if (own == ranks.end() || *own != role.rank) return collective::make_group_of_one();
    rank = static_cast<int>(own - ranks.begin());
    size = static_cast<int>(ranks.size());
  }
  if (session_->is_alone() || size == 1) return collective::make_group_of_one();
  const std::uint32_t who = crc32c(ranks.data(), ranks.size() * sizeof(std::int32_t));
  collective::FormOptions form{
      .id = fmt::format("world-{}-{:08x}", number, who), .authenticate = {}, .connect = {}};
  collective::use_network(form, network_);
  return collective::form_group(
      {.rank = rank,
       .size = size,
       .task = to_string(role.task),
       .host = role.cluster.empty() ? "" : role.host(),
       .host_identity = {}},
      std::make_shared<transport::StoreRendezvous>(session_->store(), session_->key("collective")),
      form, deadline);
}

// A view that loses a member before its world is open is followed by the next.
std::shared_ptr<World> Job::open_view(const OpenOptions& options, Deadline deadline) {
  if (options.ranks)
    throw InvalidInput("an elastic world has no list of ranks: it is the view's members",
                       {.advice = "Open it without ranks."});
  if (elastic_->is_member())
    elastic_->change(options.stage, options.why, deadline);
  else
    elastic_->enter(kAgreement, deadline);
  while (true) {
    const membership::View& view = elastic_->view();
    const std::int64_t stage = view.members[static_cast<std::size_t>(elastic_->rank())].stage;
    view_ = static_cast<std::int64_t>(view.number);
    is_newcomer_ = stage == membership::kNoState;
    try {
      // The membership owns the group, and gives it up with the next change.
      return make_world(options, {&elastic_->group(), [](collective::Group*) {}}, deadline);
    } catch (const PeerError& error) {
      elastic_->change(stage, error.what(), deadline);
    }
  }
}

StallOptions Job::stall_notes(StallOptions options, const std::string& world) {
  const std::string prefix = session_->key("stalled") + "/" + world + "/";
  cluster::StoreClient& store = session_->store();
  options.post = [prefix, &store](const std::string& note) {
    store.set(prefix + note, "", Deadline::after(kNoteLimit));
  };
  options.list = [prefix, &store](const std::string& below) {
    std::vector<std::string> notes;
    for (const auto& [key, value] : store.list(prefix + below, Deadline::after(kNoteLimit)))
      notes.push_back(key.substr(prefix.size()));
    return notes;
  };
  return options;
}

std::uint64_t Job::planned_change() const noexcept {
  return elastic_ ? elastic_->agent().planned_change() : 0;
}

void Job::committed(std::int64_t stage, std::int64_t step, double samples_per_second) noexcept {
  if (elastic_) elastic_->agent().committed(stage, step, samples_per_second);
}

bool Job::finish(std::int64_t stage, Deadline deadline) {
  if (!elastic_)
    throw InvalidInput("this job is not elastic", {.advice = "Leave the job instead."});
  return elastic_->agent().finish(stage, deadline);
}

void Job::leave(bool succeeded, Deadline deadline) {
  if (const auto last = world_.lock()) last->close();
  if (!succeeded) {
    elastic_.reset();
    session_.reset();
    return;
  }
  if (elastic_) elastic_->leave(deadline);
  session_->done(deadline);
  session_->close(deadline);
}

}  // namespace cohort::capi
