// The store as its clients see it: StoreServer and StoreClient over loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/soon_test.h"
#include "cohort/cluster/store/store_client.h"
#include "cohort/cluster/store/store_server.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Deadline in_ms(int ms) { return Deadline::after(milliseconds(ms)); }

class Store : public ::testing::Test {
 protected:
  std::unique_ptr<StoreClient> client(const std::string& name = "") {
    return StoreClient::connect({.address = server_.address(), .secret = secret_, .name = name},
                                soon());
  }
  template <typename E>
  static std::string message_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const E& error) {
      return error.what();
    }
    return "no such error";
  }

  Secret secret_ = Secret::generate();
  StoreServer server_{StoreServerOptions{.secret = secret_}};
};

TEST_F(Store, WhatOneSetsAnotherGets) {
  auto a = client(), b = client();
  a->set("key", std::string("v\0lue", 5), soon());
  EXPECT_EQ(b->get("key", soon()), std::string("v\0lue", 5));
  EXPECT_EQ(b->try_get("other", soon()), std::nullopt);
  EXPECT_TRUE(b->remove("key", soon()));
  EXPECT_FALSE(b->remove("key", soon()));
  EXPECT_EQ(a->try_get("key", soon()), std::nullopt);
}

TEST_F(Store, GetWaitsUntilTheKeyIsSet) {
  auto a = client(), b = client();
  auto value = std::async(std::launch::async, [&] { return a->get("later", soon()); });
  EXPECT_EQ(value.wait_for(milliseconds(30)), std::future_status::timeout);
  b->set("later", "now", soon());
  EXPECT_EQ(value.get(), "now");
}

TEST_F(Store, WhatIsPostedArrivesInOrderThoughNobodyWaitsForTheAnswers) {
  auto a = client(), b = client();
  StoreWatch watch = b->watch("mail/", soon());
  for (int i = 0; i < 100; ++i) a->post("mail/box", std::to_string(i), soon());
  for (int i = 0; i < 100; ++i) {
    auto event = watch.next(soon());
    ASSERT_TRUE(event);
    EXPECT_EQ(event->value, std::to_string(i));
  }
  EXPECT_EQ(a->get("mail/box", soon()), "99");
  a->close();
  EXPECT_THROW(a->post("mail/box", "late", soon()), PeerError);
}

TEST_F(Store, ASecondConnectionHasAnEndOfItsOwn) {
  auto a = client("a");
  auto again = a->connect_again("a (agent)", soon());
  EXPECT_EQ(again->name(), "a (agent)");
  again->set_on_disconnect("gone", "yes", soon());
  again.reset();
  EXPECT_EQ(a->get("gone", soon()), "yes");
}

TEST_F(Store, GetTimesOutAndNamesStoreOperationAndKey) {
  auto a = client();
  std::string message = message_of<TimeoutError>([&] { a->get("never", in_ms(30)); });
  EXPECT_THAT(message,
              AllOf(HasSubstr(std::to_string(server_.address().port)), HasSubstr("get 'never'")));
  a->set("still", "usable", soon());
}

TEST_F(Store, CompareAndSetLetsOneWin) {
  auto a = client(), b = client();
  EXPECT_TRUE(a->compare_and_set("leader", std::nullopt, "a", soon()).swapped);
  auto lost = b->compare_and_set("leader", std::nullopt, "b", soon());
  EXPECT_FALSE(lost.swapped);
  EXPECT_EQ(lost.found, "a");
  EXPECT_TRUE(b->compare_and_set("leader", "a", "b", soon()).swapped);
  EXPECT_EQ(a->get("leader", soon()), "b");
  auto missing = a->compare_and_set("absent", "x", "y", soon());
  EXPECT_FALSE(missing.swapped);
  EXPECT_EQ(missing.found, std::nullopt);
}

TEST_F(Store, CountersAddUpAndCanBeWaitedFor) {
  auto a = client(), b = client();
  auto reached = std::async(std::launch::async, [&] { return a->wait_counter("n", 3, soon()); });
  EXPECT_EQ(b->add("n", 2, soon()), 2);
  EXPECT_EQ(reached.wait_for(milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(b->add("n", 5, soon()), 7);
  EXPECT_EQ(reached.get(), 7);
  EXPECT_EQ(b->add("n", -10, soon()), -3);
  EXPECT_EQ(b->get("n", soon()), "-3");
  b->set("text", "x", soon());
  EXPECT_THROW(b->add("text", 1, soon()), InvalidInput);
  b->set("large", "9223372036854775807", soon());
  EXPECT_THROW(b->add("large", 1, soon()), InvalidInput);
  EXPECT_THROW(b->wait_counter("n", 1, in_ms(20)), TimeoutError);
}

TEST_F(Store, ListGivesWhatIsUnderAPrefixInOrder) {
  auto a = client();
  for (std::string key : {"m/b", "m/a", "l", "n", "m0"}) a->set(key, "v" + key, soon());
  EXPECT_THAT(a->list("m/", soon()), ElementsAre(Pair("m/a", "vm/a"), Pair("m/b", "vm/b")));
  EXPECT_TRUE(a->list("zzz", soon()).empty());
}

TEST_F(Store, KeysAndValuesAreBounded) {
  auto a = client();
  EXPECT_THROW(a->set(std::string(1025, 'k'), "", soon()), InvalidInput);
  EXPECT_THROW(a->set("k", std::string((16 << 20) + 1, 'v'), soon()), InvalidInput);
  std::string largest(16 << 20, 'v');
  a->set(std::string(1024, 'k'), largest, soon());
  EXPECT_EQ(a->get(std::string(1024, 'k'), soon()), largest);
}

TEST_F(Store, AWatchShowsThePresentAndThenEveryChange) {
  auto a = client(), b = client();
  a->set("w/1", "old", soon());
  StoreWatch watch = b->watch("w/", soon());
  a->set("w/2", "new", soon());
  a->set("other", "x", soon());
  a->remove("w/1", soon());
  auto first = watch.next(soon()), second = watch.next(soon()), third = watch.next(soon());
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->key + "=" + first->value, "w/1=old");
  EXPECT_EQ(second->key + "=" + second->value, "w/2=new");
  EXPECT_EQ(third->key, "w/1");
  EXPECT_EQ(third->kind, StoreEvent::Kind::removed);
  EXPECT_EQ(watch.next(in_ms(20)), std::nullopt);
}

TEST_F(Store, CallsOfManyThreadsOverOneClientDoNotMix) {
  auto shared = client(), other = client();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        std::string key = fmt::format("{}/{}", t, i);
        shared->set(key, key, soon());
        if (shared->get(key, soon()) != key) ++wrong;
        shared->add("sum", 1, soon());
      }
    });
  auto waited = std::async(std::launch::async, [&] { return shared->get("last", soon()); });
  for (auto& thread : threads) thread.join();
  other->set("last", "word", soon());
  EXPECT_EQ(waited.get(), "word");
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(other->get("sum", soon()), "800");
}

TEST_F(Store, ABarrierReleasesAllOrNobodyAndItsNameCanBeUsedAgain) {
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(client(fmt::format("worker/{}", i)));
  std::atomic<int> through = 0;
  for (int round = 1; round <= 3; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&, i] {
        clients[i]->barrier("b", 4, soon());
        ++through;
      });
    EXPECT_EQ(clients[3]->try_get("x", soon()), std::nullopt);
    EXPECT_EQ(through, 4 * (round - 1));
    clients[3]->barrier("b", 4, soon());
    ++through;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(through, 4 * round);
  }
}

TEST_F(Store, ABarrierThatTimesOutNamesWhoIsMissing) {
  auto a = client("worker/0"), b = client("worker/1");
  BarrierOptions members{.members = {"worker/0", "worker/1", "worker/2"}};
  auto other = std::async(std::launch::async, [&] {
    return message_of<TimeoutError>([&] { b->barrier("start", 3, in_ms(400), members); });
  });
  std::string message =
      message_of<TimeoutError>([&] { a->barrier("start", 3, in_ms(200), members); });
  EXPECT_THAT(message, AllOf(HasSubstr("barrier 'start'"), HasSubstr("2 of 3 came"),
                             HasSubstr("missing: worker/2")));
  // The first gave up and so no longer counts.
  EXPECT_THAT(other.get(), AllOf(HasSubstr("1 of 3"), HasSubstr("missing: worker/0, worker/2")));
  EXPECT_THAT(message_of<TimeoutError>([&] { a->barrier("solo", 2, in_ms(20)); }),
              HasSubstr("1 of 2 came: worker/0"));
}

TEST_F(Store, AMemberThatDiesInABarrierFailsItAtOnceForTheOthers) {
  auto a = client("worker/0"), b = client("worker/1");
  auto doomed = std::async(std::launch::async, [&] {
    return message_of<PeerError>([&] { b->barrier("b", 3, soon()); });
  });
  auto waiting = std::async(std::launch::async, [&] {
    return message_of<PeerError>([&] { a->barrier("b", 3, soon()); });
  });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  auto begin = std::chrono::steady_clock::now();
  b->close();
  EXPECT_THAT(waiting.get(), HasSubstr("worker/1 left the store"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  doomed.get();
}

TEST_F(Store, ABarrierWithKnownMembersFailsWhenOneLeftWithoutComing) {
  auto a = client("worker/0"), b = client("worker/1");
  BarrierOptions members{.members = {"worker/0", "worker/1"}};
  auto waiting = std::async(std::launch::async, [&] {
    return message_of<PeerError>([&] { a->barrier("b", 2, soon(), members); });
  });
  EXPECT_EQ(waiting.wait_for(milliseconds(50)), std::future_status::timeout);
  b.reset();
  EXPECT_THAT(waiting.get(), HasSubstr("worker/1 left the store"));
  // It had left before this one began, too. When it comes back all is well.
  EXPECT_THAT(message_of<PeerError>([&] { a->barrier("c", 2, soon(), members); }),
              HasSubstr("worker/1 left the store"));
  auto again = client("worker/1");
  auto other = std::async(std::launch::async, [&] { again->barrier("c", 2, soon(), members); });
  a->barrier("c", 2, soon(), members);
  other.get();
}

TEST_F(Store, AWillIsCarriedOutHoweverTheConnectionEnds) {
  auto a = client(), b = client(), c = client();
  b->set_on_disconnect("end/b", "lost", soon());
  c->set_on_disconnect("end/c", "lost", soon());
  c->cancel_on_disconnect("end/c", soon());
  c.reset();
  b.reset();
  EXPECT_EQ(a->get("end/b", soon()), "lost");
  ASSERT_TRUE(server_.wait_for_clients_at_most(1, soon()));
  EXPECT_EQ(a->try_get("end/c", soon()), std::nullopt);
}

TEST_F(Store, WhenTheServerGoesEveryPendingCallFailsAtOnce) {
  auto a = client("worker/0"), b = client("worker/1");
  StoreWatch watch = b->watch("w/", soon());
  std::vector<std::future<std::string>> calls;
  auto start = [&](std::function<void()> action) {
    calls.push_back(
        std::async(std::launch::async, [action] { return message_of<PeerError>(action); }));
  };
  start([&] { a->get("never", Deadline::never()); });
  start([&] { a->wait_counter("never", 1, soon()); });
  start([&] { a->barrier("never", 3, soon()); });
  start([&] { watch.next(soon()); });
  EXPECT_EQ(calls.back().wait_for(milliseconds(50)), std::future_status::timeout);
  auto begin = std::chrono::steady_clock::now();
  server_.close();
  for (auto& call : calls)
    EXPECT_THAT(call.get(), HasSubstr(fmt::format("127.0.0.1:{}", server_.address().port)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_THAT(message_of<PeerError>([&] { a->set("k", "v", soon()); }), HasSubstr("set 'k'"));
  server_.close();
}

TEST_F(Store, AClientThatIsClosedFailsItsOwnPendingCalls) {
  auto a = client();
  auto call = std::async(std::launch::async,
                         [&] { return message_of<PeerError>([&] { a->get("never", soon()); }); });
  EXPECT_EQ(call.wait_for(milliseconds(30)), std::future_status::timeout);
  a->close();
  EXPECT_THAT(call.get(), HasSubstr("this task closed the connection"));
}

TEST_F(Store, AServerThatStartsLaterIsFound) {
  Address address;
  { address = StoreServer(StoreServerOptions{.secret = secret_}).address(); }
  auto connecting = std::async(std::launch::async, [&] {
    return StoreClient::connect({.address = address, .secret = secret_, .name = ""}, soon());
  });
  EXPECT_EQ(connecting.wait_for(milliseconds(60)), std::future_status::timeout);
  StoreServer late(StoreServerOptions{.bind = address, .secret = secret_});
  connecting.get()->set("k", "v", soon());
}

TEST_F(Store, NobodyThereIsATimeoutThatNamesTheAddress) {
  Address address;
  { address = StoreServer().address(); }
  EXPECT_THAT(message_of<TimeoutError>([&] {
                StoreClient::connect({.address = address, .secret = {}, .name = ""}, in_ms(60));
              }),
              HasSubstr(fmt::format("cannot connect to 127.0.0.1:{}", address.port)));
}

TEST(StoreServer, IsNotOpenedToTheNetworkWithoutASecret) {
  EXPECT_THROW(StoreServer(StoreServerOptions{.bind = {"0.0.0.0", 0}}), InvalidInput);
  EXPECT_THROW(StoreServer(StoreServerOptions{.bind = {"", 0}}), InvalidInput);
  StoreServer on_purpose(StoreServerOptions{.bind = {"0.0.0.0", 0}, .insecure = true});
  Secret secret = Secret::generate();
  StoreServer secured(StoreServerOptions{.bind = {"0.0.0.0", 0}, .secret = secret});
}

}  // namespace
}  // namespace cohort::cluster
