#include "cohort/transport/tcp/messenger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/transport/tcp/wire.h"

namespace cohort::transport::tcp {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

const Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::uint32_t state = seed + 1;
  for (auto& byte : bytes)
    byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

struct Variant {
  std::string name;
  bool secret = true;
  bool tls = false;
  int streams = 1;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class TcpMessenger : public ::testing::TestWithParam<Variant> {
 protected:
  std::vector<std::unique_ptr<Messenger>> make(int size) {
    auto meeting = std::make_shared<MemoryRendezvous>();
    const Secret secret = Secret::generate();
    std::vector<std::unique_ptr<Messenger>> messengers;
    for (int rank = 0; rank < size; ++rank) {
      TcpOptions options{.rank = rank, .size = size, .id = "test"};
      if (GetParam().secret) options.secret = secret;
      options.tls = GetParam().tls;
      options.streams = GetParam().streams;
      messengers.push_back(make_messenger(options, meeting, soon()));
    }
    return messengers;
  }

  // body(rank, messenger) in a thread each.
  void run(int size, const std::function<void(int, Messenger&)>& body) {
    auto messengers = make(size);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        try {
          const auto messenger = std::move(messengers[rank]);
          body(rank, *messenger);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    for (auto& thread : threads) thread.join();
  }
};

INSTANTIATE_TEST_SUITE_P(
    Variants, TcpMessenger,
    ::testing::Values(Variant{"secret"}, Variant{.name = "open", .secret = false},
                      Variant{.name = "streams", .streams = 3}, Variant{.name = "tls", .tls = true},
                      Variant{.name = "tlsstreams", .tls = true, .streams = 2}),
    [](const auto& info) { return info.param.name; });

TEST_P(TcpMessenger, MessagesOfEverySizeArriveWholeAndInOrder) {
  const std::vector<std::size_t> sizes{
      0,         1, 100, 4096, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 3 * kChunkBytes + 17,
      5'000'000, 0, 64};
  run(3, [&](int rank, Messenger& messenger) {
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to) {
        if (from == to || (rank != from && rank != to)) continue;
        std::vector<std::unique_ptr<Transfer>> transfers;
        std::vector<Bytes> memory;
        for (std::size_t i = 0; i < sizes.size(); ++i)
          memory.push_back(rank == from ? pattern(sizes[i], 7 * from + i) : Bytes(sizes[i]));
        for (auto& bytes : memory)
          transfers.push_back(rank == from ? messenger.send(to, Lane::collective, bytes)
                                           : messenger.receive(from, Lane::collective, bytes));
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          transfers[i]->wait(sizes[i], soon());
          EXPECT_EQ(transfers[i]->done(), sizes[i]);
          if (rank == to) {
            EXPECT_EQ(memory[i], pattern(sizes[i], 7 * from + i)) << sizes[i];
          }
        }
      }
  });
}

TEST_P(TcpMessenger, MessagesThatCameTogetherAreTakenOneByOne) {
  run(2, [&](int rank, Messenger& messenger) {
    for (unsigned message = 0; message < 50; ++message) {
      Bytes bytes = rank == 0 ? pattern(8, message) : Bytes(8);
      auto transfer = rank == 0 ? messenger.send(1, Lane::collective, bytes)
                                : messenger.receive(0, Lane::collective, bytes);
      transfer->wait(8, soon());
      EXPECT_EQ(bytes, pattern(8, message)) << message;
    }
  });
}

TEST_P(TcpMessenger, BothWaysAtOnceWithoutBufferSpaceForEither) {
  run(2, [&](int rank, Messenger& messenger) {
    const Bytes out = pattern(12'000'000, static_cast<unsigned>(rank));
    Bytes in(out.size());
    auto send = messenger.send(1 - rank, Lane::collective, out);
    auto receive = messenger.receive(1 - rank, Lane::collective, in);
    receive->wait(in.size(), soon());
    send->wait(out.size(), soon());
    EXPECT_EQ(in, pattern(12'000'000, static_cast<unsigned>(1 - rank)));
  });
}

TEST_P(TcpMessenger, APrefixCanBeReadBeforeTheRestIsSent) {
  run(2, [&](int rank, Messenger& messenger) {
    Bytes bytes = rank == 0 ? pattern(8 * kChunkBytes, 5) : Bytes(8 * kChunkBytes);
    if (rank == 0) {
      messenger.send(1, Lane::collective, bytes)->wait(bytes.size(), soon());
      return;
    }
    const Bytes expected = pattern(8 * kChunkBytes, 5);
    auto receive = messenger.receive(0, Lane::collective, bytes);
    for (std::size_t seen = 1; seen < bytes.size(); seen = receive->done() + 1) {
      receive->wait(std::min(seen, bytes.size()), soon());
      ASSERT_GE(receive->done(), std::min(seen, bytes.size()));
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<long>(receive->done()),
                             expected.begin()));
      if (receive->done() == bytes.size()) break;
    }
    receive->wait(bytes.size(), soon());
  });
}

TEST_P(TcpMessenger, ALaneThatNobodyReadsDoesNotHoldUpTheOther) {
  run(2, [&](int rank, Messenger& messenger) {
    Bytes large(20'000'000), small(10);
    if (rank == 0) {
      auto blocked = messenger.send(1, Lane::collective, large);
      messenger.send(1, Lane::point_to_point, small)->wait(10, soon());
      messenger.receive(1, Lane::point_to_point, small)->wait(10, soon());
      blocked->wait(large.size(), soon());
    } else {
      messenger.receive(0, Lane::point_to_point, small)->wait(10, soon());
      messenger.send(0, Lane::point_to_point, small)->wait(10, soon());
      messenger.receive(0, Lane::collective, large)->wait(large.size(), soon());
    }
  });
}

TEST_P(TcpMessenger, SeveralThreadsWaitSideBySide) {
  run(2, [&](int rank, Messenger& messenger) {
    std::vector<std::future<void>> futures;
    for (const Lane lane : {Lane::collective, Lane::point_to_point})
      for (const bool is_send : {true, false})
        futures.push_back(std::async(std::launch::async, [&, lane, is_send] {
          Bytes bytes(300'000);
          for (int i = 0; i < 20; ++i)
            (is_send ? messenger.send(1 - rank, lane, bytes)
                     : messenger.receive(1 - rank, lane, bytes))
                ->wait(bytes.size(), soon());
        }));
    for (auto& future : futures) future.get();
  });
}

TEST_P(TcpMessenger, DifferentSizesAreNamedOnBothRanks) {
  run(2, [&](int rank, Messenger& messenger) {
    Bytes bytes(1000);
    const std::string text = message_of<ProtocolError>([&] {
      if (rank == 0)
        messenger.send(1, Lane::collective, std::span(bytes).first(400))->wait(400, soon());
      else
        messenger.receive(0, Lane::collective, std::span(bytes).first(500))->wait(500, soon());
      messenger.receive(1 - rank, Lane::collective, bytes)->wait(1000, soon());
    });
    EXPECT_THAT(text, HasSubstr("400"));
    EXPECT_THAT(text, HasSubstr("500"));
    EXPECT_THAT(text, HasSubstr("rank 0"));
    message_of<ProtocolError>([&] { messenger.send(1 - rank, Lane::collective, bytes); });
  });
}

TEST_P(TcpMessenger, AbortTellsConnectedPeersWhy) {
  run(2, [&](int rank, Messenger& messenger) {
    Bytes bytes(1'000'000);
    (rank == 0 ? messenger.send(1, Lane::collective, bytes)
               : messenger.receive(0, Lane::collective, bytes))
        ->wait(bytes.size(), soon());
    (rank == 1 ? messenger.send(0, Lane::collective, bytes)
               : messenger.receive(1, Lane::collective, bytes))
        ->wait(bytes.size(), soon());
    if (rank == 0) {
      messenger.abort({7, 2, "rank 2 fell over"});
      EXPECT_THAT(message_of<PeerError>([&] { messenger.receive(1, Lane::collective, bytes); }),
                  HasSubstr("rank 2 fell over"));
    } else {
      const auto start = Deadline::Clock::now();
      EXPECT_THAT(message_of<PeerError>([&] {
                    messenger.receive(0, Lane::collective, bytes)->wait(bytes.size(), soon());
                  }),
                  HasSubstr("rank 2 fell over"));
      EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(2));
      ASSERT_TRUE(messenger.aborted().has_value());
      EXPECT_EQ(messenger.aborted()->kind, 7u);
      EXPECT_EQ(messenger.aborted()->culprit, 2);
    }
  });
}

TEST_P(TcpMessenger, AbortIsHeardThoughDataLiesBeforeIt) {
  std::promise<void> heard;
  run(3, [&](int rank, Messenger& messenger) {
    Bytes bytes(100'000), go(1);
    if (rank == 0) {  // sends what rank 2 never asks for, then aborts
      messenger.receive(2, Lane::point_to_point, go)->wait(1, soon());
      messenger.send(2, Lane::collective, bytes)->wait(bytes.size(), soon());
      messenger.abort({0, 0, "enough"});
    } else if (rank == 1) {
      heard.get_future().wait();
    } else {  // waits for another rank
      messenger.send(0, Lane::point_to_point, go)->wait(1, soon());
      EXPECT_THAT(message_of<PeerError>([&] {
                    messenger.send(0, Lane::collective, go)->wait(1, soon());
                    messenger.receive(1, Lane::collective, bytes)->wait(bytes.size(), soon());
                  }),
                  HasSubstr("enough"));
      heard.set_value();
    }
  });
}

TEST_P(TcpMessenger, APeerThatDiesBeforeItConnectsIsNoticed) {
  run(3, [&](int rank, Messenger& messenger) {
    if (rank == 1) return;
    Bytes bytes(10);
    const auto start = Deadline::Clock::now();
    EXPECT_THAT(message_of<PeerError>(
                    [&] { messenger.receive(1, Lane::collective, bytes)->wait(10, soon()); }),
                HasSubstr("rank 1"));
    EXPECT_LT(Deadline::Clock::now() - start, std::chrono::seconds(3));
  });
}

TEST_P(TcpMessenger, AnAbortBeforeTheFirstConnectionIsHeard) {
  std::promise<void> heard;
  run(3, [&](int rank, Messenger& messenger) {
    if (rank == 1) {
      messenger.abort({5, 1, "no disk"});
      return heard.get_future().wait();
    }
    Bytes bytes(10);
    EXPECT_THAT(message_of<PeerError>(
                    [&] { messenger.receive(1, Lane::collective, bytes)->wait(10, soon()); }),
                HasSubstr("no disk"));
    ASSERT_TRUE(messenger.aborted().has_value());
    EXPECT_EQ(messenger.aborted()->kind, 5u);
    if (rank == 2) heard.set_value();
  });
}

TEST_P(TcpMessenger, AbortWakesAWaiterOfTheSameRank) {
  std::promise<void> over;
  run(2, [&](int rank, Messenger& messenger) {
    if (rank == 1) return over.get_future().wait();
    Bytes bytes(10);
    auto receive = messenger.receive(1, Lane::collective, bytes);
    std::thread other([&] { messenger.abort({0, 0, "called off"}); });
    EXPECT_THAT(message_of<PeerError>([&] { receive->wait(10, soon()); }), HasSubstr("called off"));
    other.join();
    over.set_value();
  });
}

TEST_P(TcpMessenger, WhatWasSentArrivesThoughTheSenderLeft) {
  std::promise<void> left;
  run(2, [&](int rank, Messenger& messenger) {
    Bytes first(1), bytes = rank == 1 ? pattern(200'000, 3) : Bytes(200'000);
    if (rank == 1) {
      messenger.send(0, Lane::collective, first)->wait(1, soon());
      messenger.send(0, Lane::collective, bytes)->wait(bytes.size(), soon());
      left.set_value();
      return;
    }
    messenger.receive(1, Lane::collective, first)->wait(1, soon());
    left.get_future().wait();
    auto other = messenger.receive(1, Lane::collective, bytes);
    other->wait(bytes.size(), soon());
    EXPECT_EQ(bytes, pattern(200'000, 3));
    EXPECT_THAT(message_of<PeerError>(
                    [&] { messenger.receive(1, Lane::collective, first)->wait(1, soon()); }),
                HasSubstr("rank 1 left"));
  });
}

TEST_P(TcpMessenger, ADeadlineNamesThePeerAndBreaksTheMessenger) {
  std::promise<void> over;
  run(2, [&](int rank, Messenger& messenger) {
    Bytes bytes(10);
    if (rank == 0) return over.get_future().wait();
    auto receive = messenger.receive(0, Lane::collective, bytes);
    const std::string text = message_of<TimeoutError>(
        [&] { receive->wait(10, Deadline::after(std::chrono::milliseconds(100))); });
    EXPECT_THAT(text, HasSubstr("rank 0"));
    message_of<TimeoutError>([&] { messenger.send(0, Lane::collective, bytes); });
    EXPECT_FALSE(messenger.aborted().has_value());
    over.set_value();
  });
}

TEST_P(TcpMessenger, ATransferGivenUpBreaksBothSides) {
  run(2, [&](int rank, Messenger& messenger) {
    Bytes bytes(20'000'000), small(1);
    if (rank == 0) {
      messenger.send(1, Lane::collective, small)->wait(1, soon());
      messenger.send(1, Lane::collective, bytes);  // destroyed at once
      message_of<PeerError>([&] { messenger.send(1, Lane::collective, small); });
    } else {
      messenger.receive(0, Lane::collective, small)->wait(1, soon());
      message_of<PeerError>(
          [&] { messenger.receive(0, Lane::collective, bytes)->wait(bytes.size(), soon()); });
    }
  });
}

TEST(TcpMessengerOptions, TheNetworkNeedsASecretUnlessToldOtherwise) {
  auto meeting = std::make_shared<MemoryRendezvous>();
  TcpOptions options{.size = 2, .id = "g", .bind_host = ""};
  EXPECT_THAT(message_of<InvalidInput>([&] { make_messenger(options, meeting, soon()); }),
              HasSubstr("no secret"));
  options.insecure = true;
  make_messenger(options, meeting, soon());
  options.insecure = false;
  options.secret = Secret::generate();
  make_messenger(options, meeting, soon());
}

TEST(TcpMessengerOptions, TlsNeedsASecretAndBothSidesMustWantIt) {
  auto meeting = std::make_shared<MemoryRendezvous>();
  TcpOptions options{.size = 2, .id = "g", .tls = true};
  EXPECT_THAT(message_of<InvalidInput>([&] { make_messenger(options, meeting, soon()); }),
              HasSubstr("secret"));
  options.secret = Secret::generate();
  const auto first = make_messenger(options, meeting, soon());
  options.rank = 1;
  options.tls = false;
  const auto second = make_messenger(options, meeting, soon());
  Bytes bytes(1);
  EXPECT_THAT(
      message_of<PeerError>([&] { second->send(0, Lane::collective, bytes)->wait(1, soon()); }),
      HasSubstr("TLS"));
}

}  // namespace
}  // namespace cohort::transport::tcp
