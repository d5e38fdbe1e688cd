#include "cohort/cluster/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/cluster/session/session_roles_test.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Session, ATaskThatIsAloneNeedsNoStore) {
  auto session = Session::join(Role{}, {});
  EXPECT_TRUE(session->is_alone());
  session->barrier("b", soon());
  session->done(soon());
  session->serve_until_done(soon());
  session->close(soon());

  // A cluster of one is alone too (U5), and so is an evaluator beside it.
  EXPECT_TRUE(Session::join(role_in(local_cluster(1, 0), {TaskType::worker, 0}), {})->is_alone());
}

TEST(Session, StartedByHandTheChiefHostsTheStoreAndTheJobEndsByItself) {
  Secret secret = Secret::generate();
  ClusterSpec cluster = local_cluster(2, 1);
  auto task = [&](TaskId id, const std::function<void(Session&)>& body) {
    return std::async(std::launch::async, [=] {
      auto session = Session::join(role_in(cluster, id), fast(secret));
      body(*session);
      session->close(soon());
    });
  };
  // The others start before the chief.
  auto ps = task({TaskType::ps, 0}, [](Session& session) { session.serve_until_done(soon()); });
  auto worker = task({TaskType::worker, 1}, [](Session& session) {
    session.barrier("start", soon());
    session.store().set(session.key("from/1"), "one", soon());
    EXPECT_EQ(session.store().get(session.key("from/0"), soon()), "zero");
    // The chief is done long before this one, and must not take the store away.
    EXPECT_THROW(session.store().get("nothing", Deadline::after(milliseconds(200))), TimeoutError);
    session.done(soon());
  });
  auto chief = task({TaskType::worker, 0}, [](Session& session) {
    EXPECT_TRUE(session.hosts_store());
    session.barrier("start", soon());
    session.store().set(session.key("from/0"), "zero", soon());
    session.done(soon());
  });
  chief.get();
  worker.get();
  ps.get();
}

TEST(Session, TasksStartedByHandWithDifferentClustersAreToldSo) {
  ClusterSpec two = local_cluster(2, 0);
  ClusterSpec three = two;
  auto workers = two.addresses(TaskType::worker);
  workers.push_back(local_cluster(1, 0).address({TaskType::worker, 0}));
  three.set(TaskType::worker, workers);

  auto chief = Session::join(role_in(two, {TaskType::worker, 0}), fast());
  auto error = message_of<InvalidInput>([&] {
    Session::join(role_in(three, {TaskType::worker, 1}), fast());
  });
  EXPECT_THAT(error, AllOf(HasSubstr("TF_CONFIG gives worker/1"), HasSubstr(to_string(workers[2])),
                           HasSubstr("the same cluster")));
  // The chief does not wait for the one that was turned away.
  EXPECT_THAT(message_of<PeerError>([&] { chief->barrier("start", soon()); }),
              HasSubstr("worker/1"));
}

TEST(Session, ATaskMayKnowItsOwnAddressByAnotherName) {
  ClusterSpec cluster = local_cluster(2, 0);
  ClusterSpec renamed = cluster;
  auto workers = cluster.addresses(TaskType::worker);
  workers[1].host = "0.0.0.0";
  renamed.set(TaskType::worker, workers);
  auto chief = Session::join(role_in(cluster, {TaskType::worker, 0}), fast());
  EXPECT_NO_THROW(Session::join(role_in(renamed, {TaskType::worker, 1}), fast()));
}

TEST(Session, ATaskThatWaitsForTheChiefSaysSo) {
  ClusterSpec cluster = local_cluster(2, 0);
  testing::internal::CaptureStderr();
  EXPECT_THROW(
      Session::join(role_in(cluster, {TaskType::worker, 1}), {.timeout = milliseconds(2500)}),
      TimeoutError);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("worker/1 waits for worker/0"));
}

TEST(Session, AServiceTaskLearnsThatAWorkerLeftWithoutAWord) {
  StoreServer server;
  ClusterSpec cluster = local_cluster(2, 1);
  auto join = [&](TaskId id) {
    Role role = role_in(cluster, id);
    role.store = server.address();
    return Session::join(role, fast());
  };
  auto ps = join({TaskType::ps, 0});
  auto good = join({TaskType::worker, 0});
  auto bad = join({TaskType::worker, 1});
  auto served = std::async(std::launch::async, [&] {
    return message_of<PeerError>([&] { ps->serve_until_done(soon()); });
  });
  good->done(soon());
  good->close(soon());
  EXPECT_EQ(served.wait_for(milliseconds(50)), std::future_status::timeout);
  bad.reset();
  EXPECT_THAT(served.get(), HasSubstr("worker/1 left the job without saying that it is done"));
}

TEST(Session, ServingEndsOnlyWhenTheCoordinatorIsDoneToo) {
  StoreServer server;
  ClusterSpec cluster = local_cluster(1, 1, 1);
  auto join = [&](TaskId id) {
    Role role = role_in(cluster, id, false);
    role.store = server.address();
    return Session::join(role, fast());
  };
  auto ps = join({TaskType::ps, 0}), worker = join({TaskType::worker, 0}),
       chief = join({TaskType::chief, 0});
  auto served = std::async(std::launch::async, [&] { ps->serve_until_done(soon()); });
  worker->done(soon());
  EXPECT_EQ(served.wait_for(milliseconds(50)), std::future_status::timeout);
  chief->done(soon());
  served.get();
  EXPECT_THROW(worker->serve_until_done(soon()), InvalidInput);
}

TEST(Session, ABarrierNamesTheTaskThatDidNotCome) {
  StoreServer server;
  ClusterSpec cluster = local_cluster(2, 1);
  Role role = role_in(cluster, {TaskType::worker, 0});
  role.store = server.address();
  auto session = Session::join(role, fast());
  EXPECT_THAT(message_of<TimeoutError>(
                  [&] { session->barrier("start", Deadline::after(milliseconds(30))); }),
              AllOf(HasSubstr("1 of 2 came"), HasSubstr("missing: worker/1")));
  Role ps = role_in(cluster, {TaskType::ps, 0});
  ps.store = server.address();
  EXPECT_THROW(Session::join(ps, fast())->barrier("start", soon()), InvalidInput);
}

TEST(Session, AttemptsOfAJobDoNotSeeEachOther) {
  StoreServer server;
  ClusterSpec cluster = local_cluster(2, 0);
  auto join = [&](int index, int attempt) {
    Role role = role_in(cluster, {TaskType::worker, index});
    role.store = server.address();
    role.job = "job-7";
    role.attempt = attempt;
    return Session::join(role, fast());
  };
  auto first = join(0, 1);
  EXPECT_EQ(first->key("x"), "job-7/1/x");
  join(1, 1);  // comes and goes
  first.reset();
  auto again = join(0, 2);
  EXPECT_EQ(again->key("x"), "job-7/2/x");
  // worker/1 of attempt 1 is gone; that says nothing of the one in attempt 2, which is late.
  auto other = std::async(std::launch::async, [&] { join(1, 2)->barrier("start", soon()); });
  again->barrier("start", soon());
  other.get();
}

TEST(Session, TheHostOfTheStoreWaitsNoLongerThanItsDeadline) {
  ClusterSpec cluster = local_cluster(2, 0);
  auto chief = Session::join(role_in(cluster, {TaskType::worker, 0}), fast());
  auto other = Session::join(role_in(cluster, {TaskType::worker, 1}), fast());
  chief->done(soon());
  auto begin = std::chrono::steady_clock::now();
  chief->close(Deadline::after(milliseconds(100)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_THROW(other->barrier("b", soon()), PeerError);
}

TEST(Session, NoSecretOnANetworkIsRefusedWithTheFix) {
  ClusterSpec cluster;
  cluster.set(TaskType::worker, {{"10.1.2.3", 2222}, {"10.1.2.4", 2222}});
  for (int index : {0, 1}) {
    std::string message = message_of<InvalidInput>([&] {
      Session::join(role_in(cluster, {TaskType::worker, index}), fast());
    });
    EXPECT_THAT(message, AllOf(HasSubstr("10.1.2.3:2222"), HasSubstr("COHORT_SECRET_FILE="),
                               HasSubstr("COHORT_INSECURE=1")));
  }
}

TEST(Session, AStrangerIsTurnedAway) {
  Secret secret = Secret::generate();
  StoreServer server(StoreServerOptions{.secret = secret});
  Role role = role_in(local_cluster(2, 0), {TaskType::worker, 0});
  role.store = server.address();
  EXPECT_THROW(Session::join(role, fast(Secret::generate())), AuthError);
  EXPECT_THROW(Session::join(role, fast()), AuthError);
}

TEST(Session, ATaskThatDoesNotKnowHowManyTakePartIsRefused) {
  Role role;
  role.size = 4;
  role.size_known = false;
  role.dialect = "TASK_TYPE";
  EXPECT_THAT(message_of<InvalidInput>([&] { Session::join(role, fast()); }),
              AllOf(HasSubstr("TASK_TYPE tells that at least 4 tasks"), HasSubstr("cohort run")));
}

TEST(Session, AStoreThatNeverAppearsIsATimeoutThatSaysWhatToStart) {
  Role role = role_in(local_cluster(2, 0), {TaskType::worker, 1});
  SessionOptions options{.timeout = milliseconds(60)};
  EXPECT_THAT(
      message_of<TimeoutError>([&] { Session::join(role, options); }),
      AllOf(HasSubstr("worker/1 found no store at 127.0.0.1:"), HasSubstr("Start worker/0 too")));
}

TEST(Session, OptionsComeFromTheEnvironment) {
  Secret secret = Secret::generate();
  UniqueFd fd = secret.to_memfd();
  auto options = SessionOptions::from(
      {{"COHORT_SECRET_FD", std::to_string(fd.get())}, {"COHORT_INSECURE", "1"}});
  ASSERT_TRUE(options.secret.has_value());
  EXPECT_TRUE(options.secret->bytes() == secret.bytes());
  EXPECT_TRUE(options.insecure);
  EXPECT_FALSE(SessionOptions::from({}).insecure);
  EXPECT_THROW(SessionOptions::from({{"COHORT_INSECURE", "maybe"}}), InvalidInput);
}

}  // namespace
}  // namespace cohort::cluster
