#pragma once

#include <memory>
#include <string>

#include "cohort/cluster/session/session.h"
#include "cohort/membership/group/elastic_membership.h"
#include "cohort/membership/service/elastic_job_test.h"

namespace cohort::membership {

// For tests: what the launcher tells a worker of an elastic job.
inline cluster::Environment elastic_environment(ElasticJob& job, int index, int most) {
  return {{"COHORT_RANK", std::to_string(index)},
          {"COHORT_SIZE", std::to_string(most)},
          {"COHORT_LOCAL_RANK", std::to_string(index)},
          {"COHORT_LOCAL_SIZE", std::to_string(most)},
          {"COHORT_ELASTIC", "1:" + std::to_string(most)},
          {"COHORT_STORE", to_string(job.store())},
          {"COHORT_JOB", "test"}};
}

// For tests: one worker, whose thread the test gives.
struct MemberWorker {
  MemberWorker(ElasticJob& job, int index, int most, int incarnation = 0)
      : session(cluster::Session::join(
            cluster::discover_role(elastic_environment(job, index, most), {}), {})),
        elastic(std::make_unique<ElasticMembership>(
            *session, collective::NetworkOptions{},
            MemberInfo{.task = "worker/" + std::to_string(index),
                       .incarnation = incarnation,
                       .host = "here",
                       .pid = ::getpid()},
            cluster::ElasticLimits{1, most})) {}

  ElasticMembership* operator->() { return elastic.get(); }
  // As the process's end does it.
  void die() {
    elastic.reset();
    session.reset();
  }
  std::int64_t sum_of_ones() {
    std::int64_t sum = 1;
    elastic->group().all_reduce(std::span(&sum, 1));
    return sum;
  }

  std::unique_ptr<cluster::Session> session;
  std::unique_ptr<ElasticMembership> elastic;
};

}  // namespace cohort::membership
