#include "cohort/membership/group/elastic_membership.h"

#include <gmock/gmock.h>

#include <future>

#include "cohort/base/message_of_test.h"
#include "cohort/membership/group/elastic_memberships_test.h"

namespace cohort::membership {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

template <typename Body>
std::future<void> in_thread(Body body) {
  return std::async(std::launch::async, std::move(body));
}

std::future<void> enter(MemberWorker& worker) {
  return in_thread([&worker] { worker->enter("{}", soon()); });
}
std::future<void> change(MemberWorker& worker, std::int64_t stage, const std::string& why) {
  return in_thread([&worker, stage, why] { worker->change(stage, why, soon()); });
}

// Every member counts all members.
void expect_group_works(std::vector<MemberWorker*> workers) {
  std::vector<std::future<void>> sums;
  for (MemberWorker* worker : workers)
    sums.push_back(in_thread([worker, size = workers.size()] {
      EXPECT_EQ((*worker)->size(), static_cast<int>(size));
      EXPECT_EQ(worker->sum_of_ones(), static_cast<std::int64_t>(size));
    }));
  for (auto& sum : sums) sum.get();
}

TEST(ElasticMembership, EveryViewHasItsGroup) {
  ElasticJob job({.least = 1, .most = 3, .initial = 3});
  MemberWorker a(job, 0, 3), b(job, 1, 3), c(job, 2, 3);
  EXPECT_FALSE(a->is_member());
  EXPECT_THAT(message_of<InvalidInput>([&] { a->group(); }), HasSubstr("only while it trains"));
  auto first = enter(a), second = enter(b), third = enter(c);
  first.get(), second.get(), third.get();
  expect_group_works({&a, &b, &c});

  // One dies while the others wait for it in a collective.
  const auto broken = [](MemberWorker& worker) {
    EXPECT_THROW(worker.sum_of_ones(), PeerError);
    worker->change(5, "all_reduce broke", soon());
  };
  auto left = in_thread([&] { broken(a); }), right = in_thread([&] { broken(b); });
  c.die();
  job.service().lost("worker/2", 0, "worker/2 was killed");
  left.get(), right.get();
  EXPECT_EQ(a->view(), b->view());
  EXPECT_EQ(a->view().stage(), 5);
  expect_group_works({&a, &b});

  // Another comes, and no member is disturbed before it is planned to.
  MemberWorker d(job, 2, 3, 1);
  third = enter(d);
  while (a->agent().planned_change() == 0 || b->agent().planned_change() == 0)
    std::this_thread::sleep_for(milliseconds(1));
  expect_group_works({&a, &b});
  left = change(a, 8, ""), right = change(b, 8, "");
  left.get(), right.get(), third.get();
  EXPECT_EQ(d->rank(), 2);
  EXPECT_TRUE(d->view().is_behind(2));
  expect_group_works({&a, &b, &d});

  d->leave(soon());
  EXPECT_THAT(message_of<InvalidInput>([&] { d->group(); }), HasSubstr("left"));
}

TEST(ElasticMembership, AMemberThatIsLostWhileTheGroupIsFormedCostsOnlyThatView) {
  ElasticJob job({.least = 1, .most = 3, .initial = 3});
  MemberWorker a(job, 0, 3), b(job, 1, 3);
  Worker never_forms(job, 2);
  auto first = enter(a), second = enter(b);
  never_forms->enter("{}", soon());
  EXPECT_EQ(first.wait_for(milliseconds(100)), std::future_status::timeout);
  const auto from = Deadline::Clock::now();
  never_forms.die();
  job.service().lost("worker/2", 0, "worker/2 was killed");
  first.get(), second.get();
  EXPECT_LT(Deadline::Clock::now() - from, std::chrono::seconds(1));
  EXPECT_GE(a->view().number, 2u);
  expect_group_works({&a, &b});
}

TEST(ElasticMembership, ADropEndsACallThatWaits) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2});
  MemberWorker a(job, 0, 2), b(job, 1, 2);
  auto first = enter(a), second = enter(b);
  first.get(), second.get();
  auto waits = in_thread(
      [&] { EXPECT_THAT(message_of<PeerError>([&] { a.sum_of_ones(); }), HasSubstr("worker/1")); });
  job.service().lost("worker/1", 0, "worker/1 was killed");
  waits.get();
  a->change(3, "it broke", soon());
  EXPECT_EQ(a->size(), 1);
  EXPECT_EQ(a.sum_of_ones(), 1);
}

TEST(ElasticMembership, OldViewsLeaveNothingInTheStore) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2});
  MemberWorker a(job, 0, 2), b(job, 1, 2);
  auto first = enter(a), second = enter(b);
  first.get(), second.get();
  for (int round = 0; round < 5; ++round) {
    first = change(a, round, "on purpose"), second = change(b, round, "on purpose");
    first.get(), second.get();
    expect_group_works({&a, &b});
  }
  const std::string current = fmt::format("/view-{}/", a->view().number);
  const auto keys = a.session->store().list(a.session->key("collective"), soon());
  EXPECT_FALSE(keys.empty());
  for (const auto& [key, value] : keys) EXPECT_THAT(key, HasSubstr(current));
}

TEST(ElasticMembership, AProgramThatGivesUpBreaksTheGroupForTheOthers) {
  ElasticJob job({.least = 1, .most = 2, .initial = 2});
  MemberWorker a(job, 0, 2), b(job, 1, 2);
  auto first = enter(a), second = enter(b);
  first.get(), second.get();
  auto waits = in_thread([&] {
    EXPECT_THAT(message_of<PeerError>([&] { a.sum_of_ones(); }), HasSubstr("no more data"));
  });
  b->abort("no more data");
  waits.get();
}

}  // namespace
}  // namespace cohort::membership
