#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/capi/world/world.h"
#include "cohort/cluster/session/session.h"
#include "cohort/collective/world.h"
#include "cohort/membership/group/elastic_membership.h"

namespace cohort::capi {

struct OpenOptions {
  std::optional<std::vector<std::int32_t>> ranks;  // of the job; nothing: all
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  WorldOptions world;
  std::int64_t stage = 0;  // elastic, not the first world
  std::string why;
};

// This process's part in its job: the session, which lasts, and the worlds that are opened in it one
// after another.
//
// Threads: open(), close_world(), finish() and leave() from one thread at a time, the rest from any.
// Failure: as Session, form_group and ElasticMembership; InvalidInput for a task that does not train.
class Job {
 public:
  // `opened`: worlds that this process has opened before, in parts of the same job that it has left.
  explicit Job(std::chrono::milliseconds timeout, std::uint64_t opened = 0);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const cluster::Role& role() const { return session_->role(); }
  bool is_alone() const { return session_->is_alone(); }
  // Its tasks have proved to each other that they belong to it; or it has one task only.
  bool is_authenticated() const { return is_alone() || session_->secret().has_value(); }

  // At most one is open at a time. Collective.
  std::shared_ptr<World> open(const OpenOptions& options);
  std::uint64_t opened() const { return opened_; }  // worlds, also those before
  std::int64_t view() const { return view_; }       // of the world opened last
  bool is_newcomer() const { return is_newcomer_; }

  // For elastic jobs; InvalidInput (planned_change: 0) in others.
  std::uint64_t planned_change() const noexcept;
  void committed(std::int64_t stage, std::int64_t step, double samples_per_second) noexcept;
  bool finish(std::int64_t stage, Deadline deadline);

  // The world, if one is open, must be closed. Without success the others read that this task is lost.
  void leave(bool succeeded, Deadline deadline);

 private:
  std::shared_ptr<collective::Group> form(const OpenOptions& options, Deadline deadline);
  std::shared_ptr<World> open_view(const OpenOptions& options, Deadline deadline);
  std::shared_ptr<World> make_world(const OpenOptions& options,
                                    std::shared_ptr<collective::Group> group, Deadline deadline);
  StallOptions stall_notes(StallOptions options, const std::string& world);

  collective::NetworkOptions network_;
  std::unique_ptr<cluster::Session> session_;
  std::unique_ptr<membership::ElasticMembership> elastic_;
  std::uint64_t opened_;  // the same on all ranks
  std::int64_t view_ = 0;
  bool is_newcomer_ = false;
  std::weak_ptr<World> world_;
};

}  // namespace cohort::capi
