#include "cohort/capi/negotiation/negotiator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace cohort::capi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Signature all_reduce(const std::string& name, std::vector<std::int64_t> shape = {2}) {
  Signature signature;
  signature.name = name;
  signature.tensors = {{COHORT_F32, std::move(shape)}};
  return signature;
}

Signature of_kind(Kind kind, const std::string& name) {
  Signature signature;
  signature.kind = kind;
  signature.name = name;
  if (kind != Kind::join && kind != Kind::barrier) signature.tensors = {{COHORT_F32, {2}}};
  return signature;
}

// The negotiators of all ranks, which must always agree.
class Ranks {
 public:
  explicit Ranks(int size, std::size_t capacity = Negotiator::kCapacity) {
    for (int rank = 0; rank < size; ++rank) all_.emplace_back(rank, size, capacity);
  }

  // One round, with what each rank submits; the names of the units that are ready.
  std::vector<std::string> round(const std::vector<std::vector<Signature>>& submitted) {
    std::vector<std::string> news;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      std::vector<SignatureRef> fresh;
      for (const Signature& one : submitted[rank])
        fresh.push_back(std::make_shared<Signature>(one));
      news.push_back(all_[rank].news(fresh));
    }
    bytes = news[0].size();
    const std::vector<std::string_view> views(news.begin(), news.end());
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      units = all_[rank].round(views);
      std::vector<std::string> own;
      for (const Unit& unit : units) own.push_back(unit.name);
      if (rank > 0) {
        EXPECT_EQ(own, names) << "rank " << rank << " decided otherwise";
      }
      names = own;
    }
    return names;
  }

  Negotiator& operator[](std::size_t rank) { return all_[rank]; }

  std::vector<Unit> units;  // of the last round
  std::size_t bytes = 0;    // of rank 0's news in it

 private:
  std::deque<Negotiator> all_;
};

TEST(Negotiator, IsReadyWhenEveryRankHasSubmitted) {
  Ranks ranks(3);
  EXPECT_THAT(ranks.round({{all_reduce("x")}, {}, {all_reduce("y")}}), IsEmpty());
  EXPECT_THAT(ranks[0].missing(Kind::all_reduce, "x"), ElementsAre(1, 2));
  EXPECT_TRUE(ranks[1].is_behind());
  EXPECT_THAT(ranks.round({{all_reduce("y")}, {all_reduce("y")}, {}}), ElementsAre("y"));
  EXPECT_FALSE(ranks[0].is_behind());
  EXPECT_TRUE(ranks[2].is_behind());
  EXPECT_THAT(ranks.round({{}, {all_reduce("x")}, {all_reduce("x")}}), ElementsAre("x"));
  EXPECT_FALSE(ranks[2].is_behind());
  EXPECT_THAT(ranks[0].missing(Kind::all_reduce, "x"), IsEmpty());
}

TEST(Negotiator, OrdersUnitsAlikeWhateverTheOrderOfTheRanks) {
  Ranks ranks(2);
  const auto a = all_reduce("a"), b = all_reduce("b"), c = all_reduce("c");
  EXPECT_THAT(ranks.round({{a, b, c}, {c, a, b}}), ElementsAre("c", "a", "b"));
}

TEST(Negotiator, DifferentKindsUnderOneNameAreAMismatch) {
  Ranks ranks(2);
  EXPECT_THAT(ranks.round({{all_reduce("x")}, {of_kind(Kind::broadcast, "x")}}), ElementsAre("x"));
  EXPECT_THAT(ranks.units[0].mismatch,
              testing::AllOf(HasSubstr("the kinds"), HasSubstr("rank 0: allreduce (sum) of f32[2]"),
                             HasSubstr("rank 1: broadcast of f32[2]")));
  EXPECT_THAT(ranks.round({{all_reduce("x")}, {of_kind(Kind::barrier, "x")}}), IsEmpty())
      << "barriers have names of their own";
}

TEST(Negotiator, SteadyNewsTakeThreeBytesARequest) {
  Ranks ranks(2);
  const auto x = all_reduce("a rather long name of a tensor");
  ranks.round({{x}, {x}});
  EXPECT_GT(ranks.bytes, 30u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(ranks.round({{x}, {x}}), SizeIs(1));
    EXPECT_EQ(ranks.bytes, 3u);
  }
  const auto other = all_reduce(x.name, {3});  // another shape: whole again, then remembered
  ranks.round({{other}, {other}});
  EXPECT_GT(ranks.bytes, 30u);
  EXPECT_THAT(ranks.units[0].any().tensors[0].shape, ElementsAre(3));
  ranks.round({{other}, {other}});
  EXPECT_EQ(ranks.bytes, 3u);
}

TEST(Negotiator, OneRankThatChangesIsComparedAgain) {
  Ranks ranks(2);
  const auto x = all_reduce("x"), other = all_reduce("x", {3});
  ranks.round({{x}, {x}});
  ranks.round({{x}, {other}});
  EXPECT_THAT(ranks.units[0].mismatch, HasSubstr("the shapes"));
  EXPECT_THAT(ranks.round({{x}, {x}}), ElementsAre("x"));
  EXPECT_EQ(ranks.units[0].mismatch, "");
}

TEST(Negotiator, ForgetsTheNameUnusedForLongest) {
  Ranks ranks(2, 2);
  const auto a = all_reduce("a"), b = all_reduce("b"), c = all_reduce("c");
  ranks.round({{a}, {a}});
  ranks.round({{b}, {b}});
  ranks.round({{a}, {a}});
  ranks.round({{c}, {c}});  // in the place of b
  ranks.round({{a}, {a}});
  EXPECT_EQ(ranks.bytes, 3u);
  ranks.round({{b}, {b}});
  EXPECT_GT(ranks.bytes, 3u);
}

TEST(Negotiator, NumbersMeanWhatTheyMeantBeforeTheRound) {
  Ranks ranks(2, 1);
  const auto a = all_reduce("a"), b = all_reduce("b");
  ranks.round({{a}, {a}});
  // b takes a's only place in the very round in which a is sent as a number.
  EXPECT_THAT(ranks.round({{b, a}, {b, a}}), ElementsAre("b", "a"));
  EXPECT_EQ(ranks.units[1].mismatch, "");
}

TEST(Negotiator, MismatchesNameBothSides) {
  Ranks ranks(3);
  auto f64 = all_reduce("x");
  f64.tensors[0].dtype = COHORT_F64;
  ranks.round({{all_reduce("x")}, {f64}, {all_reduce("x")}});
  EXPECT_THAT(ranks.units[0].mismatch,
              testing::AllOf(HasSubstr("the data types of the ranks' requests 'x' differ"),
                             HasSubstr("ranks 0, 2: allreduce (sum) of f32[2]"),
                             HasSubstr("rank 1: allreduce (sum) of f64[2]")));
  auto maximum = all_reduce("x");
  maximum.op = COHORT_MAX;
  ranks.round({{all_reduce("x")}, {maximum}, {maximum}});
  EXPECT_THAT(ranks.units[0].mismatch,
              testing::AllOf(HasSubstr("the operations"), HasSubstr("(max)"), HasSubstr("(sum)")));
  auto root = of_kind(Kind::broadcast, "b"), other = root;
  other.root = 2;
  ranks.round({{root}, {root}, {other}});
  EXPECT_THAT(ranks.units[0].mismatch,
              testing::AllOf(HasSubstr("the root ranks"), HasSubstr("from root rank 2")));
  auto scaled = all_reduce("x");
  scaled.postscale = 0.5;
  ranks.round({{scaled}, {all_reduce("x")}, {scaled}});
  EXPECT_THAT(ranks.units[0].mismatch, HasSubstr("the scales"));
}

TEST(Negotiator, GatheredTensorsMayDifferInTheirFirstDimensionOnly) {
  Ranks ranks(2);
  auto a = of_kind(Kind::all_gather, "g"), b = a;
  a.tensors[0].shape = {5, 3};
  b.tensors[0].shape = {0, 3};
  ranks.round({{a}, {b}});
  EXPECT_EQ(ranks.units[0].mismatch, "");
  b.tensors[0].shape = {5, 4};
  ranks.round({{a}, {b}});
  EXPECT_THAT(ranks.units[0].mismatch, HasSubstr("f32[5, 4]"));
  b.tensors[0].shape = {5};
  ranks.round({{a}, {b}});
  EXPECT_THAT(ranks.units[0].mismatch, HasSubstr("the shapes"));
}

TEST(Negotiator, AJoinedRankIsNotWaitedFor) {
  Ranks ranks(3);
  EXPECT_THAT(ranks.round({{all_reduce("x")}, {all_reduce("x")}, {}}), IsEmpty());
  EXPECT_THAT(ranks.round({{}, {}, {of_kind(Kind::join, "j")}}), ElementsAre("x"));
  EXPECT_EQ(ranks.units[0].ranks[2], nullptr);
  EXPECT_FALSE(ranks[2].is_behind());
  EXPECT_THAT(ranks.round({{all_reduce("y")}, {all_reduce("y")}, {}}), ElementsAre("y"));
  EXPECT_THAT(ranks.round({{of_kind(Kind::barrier, "b")}, {of_kind(Kind::barrier, "b")}, {}}),
              ElementsAre("b"));
  EXPECT_EQ(ranks.units[0].mismatch, "");
  ranks.round({{of_kind(Kind::all_gather, "g")}, {of_kind(Kind::all_gather, "g")}, {}});
  EXPECT_THAT(ranks.units[0].mismatch,
              HasSubstr("allgather 'g' is not possible while a rank has joined, as rank 2 has"));
}

TEST(Negotiator, TheLastJoinEndsAllAndWhatWaitedGoesFirst) {
  Ranks ranks(2);
  EXPECT_THAT(ranks.round({{of_kind(Kind::join, "j")}, {}}), IsEmpty());
  EXPECT_THAT(ranks[0].missing(Kind::join, "j"), ElementsAre(1));
  EXPECT_THAT(ranks.round({{}, {all_reduce("x"), of_kind(Kind::join, "k")}}),
              ElementsAre("x", "j"));
  EXPECT_EQ(ranks.units[1].last_joined, 1);
  // No rank has joined any more.
  EXPECT_THAT(ranks.round({{all_reduce("x")}, {}}), IsEmpty());
  EXPECT_THAT(ranks.round({{}, {all_reduce("x")}}), ElementsAre("x"));
  EXPECT_NE(ranks.units[0].ranks[0], nullptr);
}

TEST(Negotiator, RefusesNewsThatNoRankCanHaveSent) {
  Negotiator one(0, 2);
  const std::string unknown("\0\5\0", 3);
  const std::vector<std::string_view> numbers = {unknown, ""};
  EXPECT_THROW(one.round(numbers), ProtocolError);
  const std::vector<std::string_view> garbage = {"", "\1\77 not a signature"};
  EXPECT_THROW(one.round(garbage), ProtocolError);
  const auto x = std::make_shared<Signature>(all_reduce("x"));
  const std::vector<SignatureRef> twice = {x, x};
  const std::string news = one.news(twice);
  const std::vector<std::string_view> doubled = {news, ""};
  EXPECT_THROW(one.round(doubled), ProtocolError);
}

TEST(Negotiator, RefusesASignatureThatNoRankMaySubmit) {
  Negotiator one(0, 2), other(1, 2);
  auto invalid = of_kind(Kind::broadcast, "b");
  invalid.root = 7;
  const std::vector<SignatureRef> requests = {std::make_shared<Signature>(invalid)};
  const std::string news = other.news(requests);
  const std::vector<std::string_view> all = {"", news};
  try {
    one.round(all);
    FAIL() << "there is no rank 7";
  } catch (const ProtocolError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("rank 1 sent"), HasSubstr("root rank 7")));
  }
}

TEST(Signature, IsRefusedWithTheFix) {
  const auto why = [](const Signature& signature, int size = 2) -> std::string {
    try {
      check_signature(signature, size);
      return "";
    } catch (const InvalidInput& error) {
      return error.what();
    }
  };
  EXPECT_EQ(why(all_reduce("x")), "");
  EXPECT_THAT(why(all_reduce("")), HasSubstr("name"));
  EXPECT_THAT(why(all_reduce("x", {-1})), HasSubstr("the shape [-1]"));
  EXPECT_THAT(why(all_reduce("x", {1 << 30, 1 << 30})), HasSubstr("memory can hold"));
  auto moved = all_reduce("x");
  moved.tensors[0].dtype = COHORT_U16;
  EXPECT_THAT(why(moved), HasSubstr("u16 is not reduced"));
  auto split = of_kind(Kind::all_to_all, "x");
  EXPECT_THAT(why(split, 3), HasSubstr("2 rows do not split over 3 ranks"));
  split.splits = {2, 1};
  EXPECT_THAT(why(split), HasSubstr("the splits have 3 rows, the tensor 2"));
  split.splits = {2};
  EXPECT_THAT(why(split), HasSubstr("1 splits for 2 ranks"));
  auto adasum = all_reduce("x");
  adasum.op = COHORT_ADASUM;
  adasum.tensors[0].dtype = COHORT_I32;
  EXPECT_THAT(why(adasum), HasSubstr("adasum of i32"));
  auto shards = of_kind(Kind::shard_sum, "x");
  shards.shards = 1;
  EXPECT_THAT(why(shards), HasSubstr("1 shards for 2 ranks"));
  shards.shards = 1 << 20;
  EXPECT_EQ(why(shards), "");
  ++shards.shards;
  EXPECT_THAT(why(shards), HasSubstr("1048577 shards"));
}

TEST(Signature, IsRefusedWhereItsNumbersOverflow) {
  auto split = of_kind(Kind::all_to_all, "x");
  split.splits = {INT64_MAX, INT64_MAX, 4};  // 2, where sums wrap
  EXPECT_THROW(check_signature(split, 3), InvalidInput);
  EXPECT_THROW(
      check_signature(all_reduce("x", std::vector<std::int64_t>(kMaxDimensions + 1, 1)), 2),
      InvalidInput);
  auto many = all_reduce("x", std::vector<std::int64_t>(kMaxDimensions, 1));
  check_signature(many, 2);
  many.tensors.assign(kMaxTensors + 1, {COHORT_F32, {}});
  EXPECT_THROW(check_signature(many, 2), InvalidInput);
}

}  // namespace
}  // namespace cohort::capi
