#include "cohort/train/elastic/state.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <sstream>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/parallel/tensors/on_ranks_test.h"
#include "cohort/train/checkpoint/module_state.h"
#include "cohort/train/checkpoint/optimizer_state.h"

namespace cohort::elastic {
namespace {

// A training, small but with everything that a State holds.
struct ToyTraining {
  torch::nn::Sequential net{torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4),
                            torch::nn::Linear(4, 1)};
  torch::optim::Adam adam{net->parameters(), 0.1};
  torch::Tensor average = torch::zeros({2});
  train::ElasticSampler sampler{100, {.batch_size = 5}};
  std::int64_t step = 0;
  double best = std::numeric_limits<double>::infinity();
  std::string phase = "warm up";
  nlohmann::json notes = nlohmann::json::array();
  State state;

  ToyTraining() {
    state.register_module("net", *net);
    state.register_optimizer("adam", adam);
    state.register_tensor("average", average);
    state.register_sampler("sampler", sampler);
    state.register_value("step", step);
    state.register_value("best", best);
    state.register_value("phase", phase);
    state.register_value("notes", notes);
  }

  // The same on every rank that is in the same state.
  void make_step() {
    adam.zero_grad();
    const torch::Tensor input =
        torch::full({4, 3}, static_cast<double>(step)) + torch::arange(12).reshape({4, 3}) % 5;
    const torch::Tensor loss = net->forward(input).pow(2).mean();
    loss.backward();
    adam.step();
    average += loss.detach();
    best = std::min(best, loss.item<double>());
    phase = "training";
    notes.push_back(step);
    sampler.record_batch();
    ++step;
  }

  // All of it in a line of text.
  std::string bits() const {
    train::TensorMap tensors{{"average", average}};
    for (const torch::Tensor& tensor : train::optimizer_state_tensors(adam))
      tensors.emplace(std::to_string(tensors.size()), tensor);
    std::ostringstream text;
    text << train::fingerprint(*net) << ' ' << train::fingerprint(tensors) << ' ' << step << ' '
         << std::hexfloat << best << ' ' << phase << ' ' << notes << ' ' << sampler.position();
    for (const auto& [parameter, held] : adam.state())
      text << ' ' << static_cast<const torch::optim::AdamParamState&>(*held).step();
    return text.str();
  }
};

class TestMembers : public Members {
 public:
  explicit TestMembers(collective::Group& group) : group_(group) {}
  collective::Group& group() override { return group_; }
  std::optional<std::uint64_t> planned_change() override { return planned; }
  void expect_commit(Deadline) override {
    if (ended) throw PeerError("the view has ended");
  }
  void committed(std::int64_t commits) override { told = commits; }

  std::uint64_t planned = 0;
  bool ended = false;
  std::int64_t told = 0;

 private:
  collective::Group& group_;
};

TEST(ElasticState, RestoreGoesBackToTheLastCommitInEveryBit) {
  ToyTraining training;
  training.make_step();
  training.state.commit();
  const std::string committed = training.bits();
  training.make_step();
  training.make_step();
  training.adam.param_groups()[0].options().set_lr(0.5);
  EXPECT_NE(training.bits(), committed);
  training.state.restore();
  EXPECT_EQ(training.bits(), committed);
  EXPECT_EQ(training.adam.param_groups()[0].options().get_lr(), 0.1);
  training.make_step();
  training.state.restore();
  EXPECT_EQ(training.bits(), committed) << "training changed the saved copy";
}

TEST(ElasticState, RestoreTakesAwayWhatTheOptimizerDidNotHaveYet) {
  ToyTraining training;
  training.state.commit();
  const std::string committed = training.bits();
  training.make_step();
  training.state.restore();
  EXPECT_TRUE(training.adam.state().empty());
  EXPECT_EQ(training.bits(), committed);
  EXPECT_TRUE(std::isinf(training.best));
}

TEST(ElasticState, RestoreBeforeAnyCommitChangesNothing) {
  ToyTraining training;
  training.make_step();
  const std::string now = training.bits();
  training.state.restore();
  EXPECT_EQ(training.bits(), now);
}

TEST(ElasticState, TrainingGoesOnFromARestoreAsIfNothingHadHappened) {
  ToyTraining straight, interrupted;
  train::restore_module(*interrupted.net, train::capture_module(*straight.net));
  for (int i = 0; i < 6; ++i) straight.make_step();
  for (int i = 0; i < 3; ++i) interrupted.make_step();
  interrupted.state.commit();
  for (int i = 0; i < 2; ++i) interrupted.make_step();
  interrupted.state.restore();
  for (int i = 0; i < 3; ++i) interrupted.make_step();
  EXPECT_EQ(interrupted.bits(), straight.bits());
}

TEST(ElasticState, SyncGivesAllRanksTheStateOfTheOneWithTheMostCommits) {
  std::vector<std::string> bits(3);
  std::string donor;
  parallel::on_ranks(3, [&](collective::Group& group) {
    ToyTraining training;
    for (int i = 0; i < (group.rank() == 1 ? 3 : group.rank()); ++i) {
      training.make_step();
      training.state.commit();
    }
    if (group.rank() == 1) donor = training.bits();
    TestMembers members(group);
    training.state.attach(&members);
    training.state.sync();
    EXPECT_EQ(training.state.commits(), 3);
    bits[static_cast<std::size_t>(group.rank())] = training.bits();
    training.make_step();
    training.state.restore();
    EXPECT_EQ(training.bits(), donor) << "sync() saves";
    EXPECT_LE(training.sampler.batch().size(), 2u) << "the sampler knows the three members";
  });
  for (const std::string& one : bits) EXPECT_EQ(one, donor);
}

TEST(ElasticState, AtTheBeginningAllStartFromRankZeroWithNoCommit) {
  std::vector<std::string> bits(2);
  parallel::on_ranks(2, [&](collective::Group& group) {
    ToyTraining training;
    const std::string before = training.bits();
    TestMembers members(group);
    training.state.attach(&members);
    EXPECT_EQ(training.state.commits(), membership::kNoState);
    training.state.sync();
    EXPECT_EQ(training.state.commits(), 0);
    if (group.rank() == 0) {
      EXPECT_EQ(training.bits(), before);
    }
    bits[static_cast<std::size_t>(group.rank())] = training.bits();
  });
  EXPECT_EQ(bits[0], bits[1]);
}

TEST(ElasticState, WhoWasLeftBehindDoesNotGiveItsState) {
  parallel::on_ranks(2, [&](collective::Group& group) {
    ToyTraining training;
    const int steps = group.rank() == 0 ? 5 : 2;
    for (int i = 0; i < steps; ++i) {
      training.make_step();
      training.state.commit();
    }
    if (group.rank() == 0) training.state.forget();
    TestMembers members(group);
    training.state.attach(&members);
    training.state.sync();
    EXPECT_EQ(training.step, 2);
    EXPECT_EQ(training.state.commits(), 2);
  });
}

// Rank 0 alone knows of the change; all leave at that commit.
TEST(ElasticState, AllWorkersLeaveAtTheSameCommitForAPlannedChange) {
  std::atomic<int> interrupted = 0;
  parallel::on_ranks(3, [&](collective::Group& group) {
    ToyTraining training;
    TestMembers members(group);
    training.state.attach(&members);
    training.state.sync();
    for (int i = 0; i < 10; ++i) {
      if (i == 4 && group.rank() == 0) members.planned = 7;
      training.make_step();
      try {
        training.state.commit();
      } catch (const MembersChange&) {
        EXPECT_EQ(i, 4);
        EXPECT_EQ(training.state.commits(), 5);
        EXPECT_EQ(members.told, 5);
        ++interrupted;
        break;
      }
    }
  });
  EXPECT_EQ(interrupted, 3);
}

TEST(ElasticState, CheckForUpdatesSavesOnlyWhereAChangeIsDue) {
  parallel::on_ranks(2, [&](collective::Group& group) {
    ToyTraining training;
    TestMembers members(group);
    training.state.attach(&members);
    training.state.sync();
    training.make_step();
    training.state.check_host_updates();
    EXPECT_EQ(training.state.commits(), 0);
    if (group.rank() == 1) members.planned = 2;
    EXPECT_THROW(training.state.check_host_updates(), MembersChange);
    EXPECT_EQ(training.state.commits(), 1);
    const std::string now = training.bits();
    training.make_step();
    training.state.restore();
    EXPECT_EQ(training.bits(), now);
  });
}

// What is saved when the view is over counts: no worker has to do it again.
TEST(ElasticState, ACommitAtTheEndOfAViewIsKeptAndTells) {
  ToyTraining training;
  auto groups = collective::make_inproc_groups(1, std::chrono::seconds(30));
  TestMembers members(*groups[0]);
  training.state.attach(&members);
  training.state.sync();
  training.make_step();
  members.ended = true;
  EXPECT_THROW(training.state.commit(), PeerError);
  EXPECT_EQ(training.state.commits(), 1);
  EXPECT_EQ(members.told, 0);
  training.make_step();
  training.state.restore();
  EXPECT_EQ(training.step, 1);
}

TEST(ElasticState, ASyncThatBreaksOffChangesNothing) {
  auto groups = collective::make_inproc_groups(2, std::chrono::seconds(30));
  std::jthread other([&] {
    ToyTraining training;
    training.make_step();
    training.state.commit();
    // It gives its number and its checksum, and is gone.
    const std::array<std::int64_t, 2> mine{1, 5};
    std::array<std::int64_t, 4> all{};
    groups[0]->all_gather(mine.data(), all.data(), 2, collective::DataType::i64);
    groups[0]->abort("killed");
  });
  ToyTraining training;
  const std::string before = training.bits();
  TestMembers members(*groups[1]);
  training.state.attach(&members);
  EXPECT_THROW(training.state.sync(), PeerError);
  EXPECT_EQ(training.bits(), before);
  EXPECT_EQ(training.state.commits(), membership::kNoState);
}

TEST(ElasticState, ResetCallbacksRunInTheOrderOfTheirRegistration) {
  State state;
  std::string order;
  state.register_reset_callbacks({[&] { order += "a"; }, [&] { order += "b"; }});
  state.register_reset_callbacks({[&] { order += "c"; }});
  state.members_changed();
  EXPECT_EQ(order, "abc");
}

TEST(ElasticState, AgreementTellsNamesTypesAndShapes) {
  ToyTraining training;
  const nlohmann::json parts = training.state.agreement().at("elastic_state");
  EXPECT_EQ(parts.at("net").at("0.weight"), "Float [4, 3]");
  EXPECT_EQ(parts.at("adam").at("class"), "Adam");
  EXPECT_EQ(parts.at("adam").at("0:0"), "Float [4, 3]");
  EXPECT_EQ(parts.at("average"), "Float [2]");
  EXPECT_EQ(parts.at("sampler").at("samples"), 100);
  EXPECT_EQ(parts.at("step"), "integer");
  EXPECT_EQ(parts.at("best"), "number");
  EXPECT_EQ(parts.at("phase"), "text");
  const nlohmann::json before = training.state.agreement();
  training.make_step();
  EXPECT_EQ(training.state.agreement(), before) << "a newcomer would be refused";
}

TEST(ElasticState, RefusesNamesThatCannotBeAndOptimizersThatItCannotCopy) {
  State state;
  std::int64_t step = 0;
  state.register_value("step", step);
  EXPECT_THAT(message_of<InvalidInput>([&] { state.register_value("step", step); }),
              ::testing::HasSubstr("there is a 'step' already"));
  EXPECT_THROW(state.register_value("", step), InvalidInput);
  EXPECT_THROW(state.register_value("a.b", step), InvalidInput);
  torch::nn::Linear net(2, 2);
  torch::optim::LBFGS lbfgs(net->parameters());
  EXPECT_THROW(state.register_optimizer("lbfgs", lbfgs), InvalidInput);
}

}  // namespace
}  // namespace cohort::elastic
