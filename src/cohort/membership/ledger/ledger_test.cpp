#include "cohort/membership/ledger/ledger.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cohort/base/data/hex_test.h"
#include "cohort/base/deadline.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/membership/ledger/ledger_format.h"

namespace cohort::membership {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Three steps an epoch: 8 + 8 + 4 samples, in four shards.
const LedgerPlan kPlan = {
    .samples = 20, .batch = 8, .shards = 4, .seed = 7, .shuffle = true, .steps_per_epoch = 3};

LedgerRecord update(std::int64_t step, std::uint64_t view = 1) {
  std::int64_t first = step % 3 * 8;
  std::uint32_t each = step % 3 == 2 ? 1 : 2;
  return {.epoch = step / 3,
          .step = step,
          .first = first,
          .view = view,
          .counts = {each, each, each, each},
          .owners = {0, 0, 1, 1}};
}

Ledger ledger_of(const std::vector<LedgerRecord>& records) {
  Ledger ledger{.plan = kPlan, .entries = {}, .rewinds = {}, .torn = false};
  for (const LedgerRecord& record : records) ledger.entries.push_back({record, 0});
  return ledger;
}

std::vector<LedgerRecord> updates(std::int64_t count) {
  std::vector<LedgerRecord> records;
  for (std::int64_t step = 0; step < count; ++step) records.push_back(update(step));
  return records;
}

std::vector<std::int64_t> steps_of(const Ledger& ledger) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : ledger.entries) steps.push_back(entry.record.step);
  return steps;
}

TEST(LedgerWriter, KnowsWhichUpdatesAreMissing) {
  ScratchFolder folder;
  LedgerWriter writer(folder / "ledger", kPlan);
  EXPECT_TRUE(writer.lacks(update(0, 1)));
  writer.append(update(0, 2));
  EXPECT_FALSE(writer.lacks(update(0, 2)));
  EXPECT_TRUE(writer.lacks(update(0, 3)));   // made again in a later view
  EXPECT_FALSE(writer.lacks(update(0, 1)));  // a later view made it again
  EXPECT_TRUE(writer.lacks(update(1, 2)));
  EXPECT_FALSE(LedgerWriter(folder / "ledger", kPlan).lacks(update(0, 2)));
  EXPECT_TRUE(LedgerWriter(folder / "ledger", kPlan).lacks(update(0, 3)));
}

TEST(LedgerVerifyTest, WholeEpochsAreExact) {
  LedgerReport report = verify(ledger_of(updates(8)));
  EXPECT_THAT(report.problems, IsEmpty());
  ASSERT_EQ(report.epochs.size(), 3u);
  for (int i : {0, 1}) {
    EXPECT_EQ(report.epochs[i].epoch, i);
    EXPECT_EQ(report.epochs[i].steps, 3);
    EXPECT_EQ(report.epochs[i].samples, 20);
    EXPECT_TRUE(report.epochs[i].ended);
  }
  EXPECT_FALSE(report.epochs[2].ended);
  EXPECT_EQ(report.epochs[2].samples, 16);
  EXPECT_EQ(report.epochs[2].missing, 0);
  EXPECT_EQ(report.views, 1u);
  EXPECT_THAT(report.redone, IsEmpty());
}

TEST(LedgerVerifyTest, AnEpochMayLeaveItsLastSamplesUnused) {
  Ledger ledger = ledger_of({update(0), update(1)});
  ledger.plan.steps_per_epoch = 2;
  LedgerReport report = verify(ledger);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_TRUE(report.epochs.at(0).ended);
  EXPECT_EQ(report.epochs.at(0).samples, 16);
}

TEST(LedgerVerifyTest, AMissingStepIsNamedAndItsSamplesAreCounted) {
  auto records = updates(6);
  records.erase(records.begin() + 1);
  LedgerReport report = verify(ledger_of(records));
  EXPECT_THAT(report.problems, ElementsAre("there is no record of step 1",
                                           "epoch 0: 8 of 20 samples entered no update"));
  EXPECT_EQ(report.epochs.at(0).missing, 8);
  EXPECT_EQ(report.epochs.at(1).missing, 0);
}

TEST(LedgerVerifyTest, AMissingShardLeavesAGap) {
  auto records = updates(6);
  records[1].counts[3] = 0;
  LedgerReport report = verify(ledger_of(records));
  EXPECT_THAT(report.problems,
              ElementsAre("epoch 0: samples [14, 16) entered no update before step 2",
                          "epoch 0: 2 of 20 samples entered no update"));
  records = updates(6);
  records[2].counts[3] = 0;  // the last of its epoch
  report = verify(ledger_of(records));
  EXPECT_THAT(report.problems, ElementsAre("epoch 0: 1 of 20 samples entered no update"));
}

TEST(LedgerVerifyTest, AMissingEpochIsNamed) {
  auto records = updates(9);
  records.erase(records.begin() + 3, records.begin() + 6);
  LedgerReport report = verify(ledger_of(records));
  EXPECT_THAT(report.problems, ElementsAre("there is no record of steps 3 to 5",
                                           "there is no record of epochs 1 to 1"));
}

TEST(LedgerVerifyTest, SamplesThatAreTakenTwiceAreCounted) {
  auto records = updates(3);
  records[1].first = 4;  // overlaps the step before, and leaves a gap
  LedgerReport report = verify(ledger_of(records));
  EXPECT_EQ(report.epochs.at(0).repeated, 4);
  EXPECT_EQ(report.epochs.at(0).missing, 4);
  EXPECT_THAT(report.problems.at(0),
              HasSubstr("step 1 begins at sample 4, but the step before it ended at 8"));
  EXPECT_EQ(report.problems.size(), 4u);
}

TEST(LedgerVerifyTest, AWholeStepDoneTwiceUnderTwoNumbersIsRepeated) {
  auto records = updates(3);
  LedgerRecord again = records[2];
  again.step = 3;
  records.push_back(again);
  LedgerReport report = verify(ledger_of(records));
  EXPECT_EQ(report.epochs.at(0).repeated, 4);
  EXPECT_FALSE(report.problems.empty());
}

TEST(LedgerVerifyTest, StepsInAnotherOrderThanTheEpochsAreAProblem) {
  auto records = updates(3);
  std::swap(records[0].step, records[1].step);
  LedgerReport report = verify(ledger_of(records));
  EXPECT_EQ(report.epochs.at(0).samples, 20);
  EXPECT_THAT(report.problems.at(0), HasSubstr("samples [0, 8) entered no update before step 0"));
}

TEST(LedgerVerifyTest, TheOrderInTheFileDoesNotMatter) {
  auto records = updates(6);
  std::swap(records[1], records[4]);
  EXPECT_THAT(verify(ledger_of(records)).problems, IsEmpty());
}

TEST(LedgerVerifyTest, MoreThanABatchOrAnEpochHoldsIsAProblem) {
  auto records = updates(3);
  records[0].counts[0] = 3;
  records[2].counts[0] = 2;
  auto problems = verify(ledger_of(records)).problems;
  EXPECT_THAT(problems, ::testing::Contains("step 0 took 9 samples, but a batch has 8"));
  EXPECT_THAT(problems,
              ::testing::Contains("step 2 took samples [16, 21) of epoch 0, which has 20"));
}

TEST(LedgerVerifyTest, ALaterViewTakesThePlaceOfAnEarlierOne) {
  auto records = updates(6);
  LedgerRecord lost = records[2];
  lost.counts = {1, 1, 0, 0};
  records[2].view = records[3].view = records[4].view = records[5].view = 2;
  for (bool late : {false, true}) {
    auto with = records;
    with.insert(late ? with.end() : with.begin() + 2, lost);
    LedgerReport report = verify(ledger_of(with));
    EXPECT_THAT(report.problems, IsEmpty());
    EXPECT_THAT(report.redone, ElementsAre(2));
    EXPECT_EQ(report.views, 2u);
  }
}

TEST(LedgerVerifyTest, AnUpdateOfAViewThatWasLeftBehindDoesNotCount) {
  // View 2 made step 1 again, so step 2 of view 1 stands on what is no more.
  auto records = updates(3);
  records.push_back(update(1, 2));
  LedgerReport report = verify(ledger_of(records));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_EQ(report.epochs.at(0).samples, 16);
  EXPECT_FALSE(report.epochs.at(0).ended);
}

TEST(LedgerVerifyTest, TheSameRecordTwiceIsOneUpdateAndTwoThatDifferAreAProblem) {
  auto records = updates(3);
  records.push_back(records[1]);
  LedgerReport report = verify(ledger_of(records));
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.redone, IsEmpty());
  records.back().owners = {0, 0, 0, 1};
  EXPECT_THAT(verify(ledger_of(records)).problems,
              ElementsAre("step 1 has two records of view 1 that differ"));
}

TEST(LedgerFileTest, GivesBackWhatWasAppended) {
  ScratchFolder folder;
  LedgerRecord record = update(2, 1234567890123);
  record.owners = {0, 1, 2, 255};
  {
    LedgerWriter writer(folder / "ledger", kPlan);
    EXPECT_EQ(writer.last_step(), std::nullopt);
    writer.append(update(0));
    writer.append(update(1));
    writer.append(record);
    writer.sync();
    EXPECT_EQ(writer.last_step(), 2);
  }
  Ledger ledger = read_ledger(folder / "ledger");
  EXPECT_EQ(ledger.plan, kPlan);
  ASSERT_EQ(ledger.entries.size(), 3u);
  EXPECT_EQ(ledger.entries[0].record, update(0));
  EXPECT_EQ(ledger.entries[2].record, record);
  EXPECT_FALSE(ledger.torn);
}

TEST(LedgerFileTest, ARecordOfEightShardsIsSmall) {
  LedgerPlan plan = kPlan;
  plan.shards = 8;
  plan.batch = 512;
  EXPECT_EQ(record_bytes(plan), 57u);
  plan.batch = 64;
  EXPECT_EQ(record_bytes(plan), 49u);
}

TEST(LedgerFileTest, WideCountsAndRanksAreKept) {
  ScratchFolder folder;
  LedgerPlan plan = kPlan;
  plan.samples = 1'000'000;
  plan.batch = 100'000;
  plan.shards = 300;
  LedgerRecord record = update(0);
  record.counts.assign(300, 0);
  record.counts[299] = 99'999;
  record.owners.assign(300, 299);
  LedgerWriter(folder / "ledger", plan).append(record);
  EXPECT_EQ(read_ledger(folder / "ledger").entries.at(0).record, record);
}

TEST(LedgerFileTest, ARecordThatDoesNotFitThePlanIsRefused) {
  ScratchFolder folder;
  LedgerWriter writer(folder / "ledger", kPlan);
  auto refused = [&](auto change) {
    LedgerRecord record = update(5);
    change(record);
    return message_of<InvalidInput>([&] { writer.append(record); });
  };
  EXPECT_THAT(refused([](auto& record) { record.counts.pop_back(); }),
              HasSubstr("step 5 has 3 counts and 4 owners for 4 shards"));
  EXPECT_THAT(refused([](auto& record) { record.counts[0] = 256; }), HasSubstr("256"));
  EXPECT_THAT(refused([](auto& record) { record.owners[0] = 256; }), HasSubstr("rank 256"));
  EXPECT_THAT(refused([](auto& record) { record.epoch = -1; }), HasSubstr("epoch"));
  EXPECT_THAT(steps_of(read_ledger(folder / "ledger")), IsEmpty());
}

TEST(LedgerFileTest, ASecondWriterContinues) {
  ScratchFolder folder;
  LedgerWriter first(folder / "ledger", kPlan);
  first.append(update(0));
  first.append(update(1));
  LedgerWriter second(folder / "ledger", kPlan);
  EXPECT_EQ(second.last_step(), 1);
  second.append(update(2, 2));
  second.append(update(3, 2));
  first.append(update(2));  // was shut out, and does not know it yet
  LedgerWriter third(folder / "ledger", kPlan);
  EXPECT_EQ(third.last_step(), 3);
  for (std::int64_t step = 4; step < 6; ++step) third.append(update(step, 3));
  Ledger ledger = read_ledger(folder / "ledger");
  EXPECT_THAT(steps_of(ledger), ElementsAre(0, 1, 2, 3, 2, 4, 5));
  LedgerReport report = verify(ledger);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.redone, ElementsAre(2));
  EXPECT_EQ(report.views, 3u);
}

TEST(LedgerFileTest, TrainingThatGoesOnFromACheckpointDoesItsStepsAgain) {
  ScratchFolder folder;
  {
    LedgerWriter writer(folder / "ledger", kPlan);
    for (std::int64_t step = 0; step < 5; ++step) writer.append(update(step, 4));
  }
  {
    LedgerWriter writer(folder / "ledger", kPlan);
    writer.rewind(3);
    EXPECT_EQ(writer.last_step(), 2);
  }
  LedgerReport report = verify(read_ledger(folder / "ledger"));
  EXPECT_THAT(report.problems, IsEmpty());
  ASSERT_EQ(report.epochs.size(), 1u);  // steps 3 and 4 are lost, and not yet done again

  LedgerWriter writer(folder / "ledger", kPlan);
  EXPECT_EQ(writer.last_step(), 2);
  for (std::int64_t step = 3; step < 6; ++step) writer.append(update(step, 1));
  EXPECT_EQ(writer.last_step(), 5);
  Ledger ledger = read_ledger(folder / "ledger");
  EXPECT_THAT(ledger.rewinds, ElementsAre(3));
  EXPECT_EQ(ledger.entries.back().generation, 1);
  report = verify(ledger);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.redone, ElementsAre(3, 4));
  EXPECT_EQ(report.epochs.at(1).samples, 20);

  writer.rewind(0);
  EXPECT_EQ(LedgerWriter(folder / "ledger", kPlan).last_step(), std::nullopt);
}

TEST(LedgerFileTest, ATailThatIsTornAtAnyByteIsCut) {
  ScratchFolder folder;
  {
    LedgerWriter writer(folder / "ledger", kPlan);
    for (std::int64_t step = 0; step < 3; ++step) writer.append(update(step));
  }
  std::string whole = read_file(folder / "ledger");
  std::size_t bytes = record_bytes(kPlan);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::filesystem::remove(folder / "torn");
    std::ofstream(folder / "torn", std::ios::binary) << whole.substr(0, size);
    std::size_t left = size < kLedgerHeaderBytes ? 0 : (size - kLedgerHeaderBytes) / bytes;
    if (size >= kLedgerHeaderBytes) {
      Ledger ledger = read_ledger(folder / "torn");
      EXPECT_EQ(ledger.entries.size(), left) << size;
      EXPECT_EQ(ledger.torn, (size - kLedgerHeaderBytes) % bytes != 0) << size;
    }
    LedgerWriter writer(folder / "torn", kPlan);
    EXPECT_EQ(writer.last_step().value_or(-1) + 1, static_cast<std::int64_t>(left)) << size;
    for (auto step = static_cast<std::int64_t>(left); step < 3; ++step) writer.append(update(step));
    EXPECT_EQ(read_file(folder / "torn"), whole) << size;
  }
}

TEST(LedgerFileTest, AnEndThatNeverReachedTheDiskIsCut) {
  ScratchFolder folder;
  LedgerWriter(folder / "ledger", kPlan).append(update(0));
  std::ofstream(folder / "ledger", std::ios::binary | std::ios::app)
      << std::string(3 * record_bytes(kPlan) + 5, '\0');
  EXPECT_TRUE(read_ledger(folder / "ledger").torn);
  EXPECT_THAT(verify(read_ledger(folder / "ledger")).problems,
              ElementsAre("3 records at the end do not match their checksum: what they said is not "
                          "known"));
  LedgerWriter(folder / "ledger", kPlan).append(update(1));
  Ledger ledger = read_ledger(folder / "ledger");
  EXPECT_THAT(steps_of(ledger), ElementsAre(0, 1));
  EXPECT_FALSE(ledger.torn);
}

TEST(LedgerFileTest, ALedgerOfZerosProvesNothing) {
  ScratchFolder folder;
  std::ofstream(folder / "zeros", std::ios::binary) << std::string(4096, '\0');
  EXPECT_THROW(read_ledger(folder / "zeros"), InvalidInput);
  { LedgerWriter writer(folder / "ledger", kPlan); }
  std::ofstream(folder / "ledger", std::ios::binary | std::ios::app)
      << std::string(record_bytes(kPlan), '\0');
  const LedgerReport report = verify(read_ledger(folder / "ledger"));
  EXPECT_THAT(report.problems,
              ElementsAre("a record at the end does not match its checksum: what it "
                          "said is not known"));
}

TEST(LedgerFileTest, DamageInTheMiddleIsRefusedByItsOffset) {
  ScratchFolder folder;
  {
    LedgerWriter writer(folder / "ledger", kPlan);
    for (std::int64_t step = 0; step < 3; ++step) writer.append(update(step));
  }
  std::string whole = read_file(folder / "ledger");
  std::size_t second = kLedgerHeaderBytes + record_bytes(kPlan);
  for (std::size_t i = 0; i < record_bytes(kPlan); ++i) {
    std::string damaged = whole;
    damaged[second + i] ^= 1;
    write_file_atomically(folder / "ledger", damaged);
    EXPECT_THAT(message_of<InvalidInput>([&] { read_ledger(folder / "ledger"); }),
                HasSubstr(fmt::format("the record at byte {} (number 1 of 3)", second)));
  }
}

TEST(LedgerFileTest, AnotherFileOrPlanIsRefusedAndLeftAlone) {
  ScratchFolder folder;
  LedgerWriter(folder / "ledger", kPlan).append(update(0));
  std::string before = read_file(folder / "ledger");
  auto refused = [&](auto change) {
    LedgerPlan plan = kPlan;
    change(plan);
    return message_of<InvalidInput>([&] { LedgerWriter(folder / "ledger", plan); });
  };
  EXPECT_THAT(refused([](auto& plan) { plan.batch = 16; }), HasSubstr("batches of 8, not 16"));
  EXPECT_THAT(refused([](auto& plan) { plan.seed = 8; }), HasSubstr("seed 7, not 8"));
  EXPECT_THAT(refused([](auto& plan) { plan.shards = 8; }), HasSubstr("4 shards a step, not 8"));
  EXPECT_THAT(refused([](auto& plan) { plan.samples = 21; }), HasSubstr("20 samples"));
  EXPECT_THAT(refused([](auto& plan) { plan.shuffle = false; }), HasSubstr("order"));
  EXPECT_THAT(refused([](auto& plan) { plan.steps_per_epoch = 2; }), HasSubstr("3 steps an epoch"));
  EXPECT_EQ(read_file(folder / "ledger"), before);

  for (const std::string& text : {std::string("notes"), std::string(200, 'x')}) {
    write_file_atomically(folder / "notes", text);
    EXPECT_THAT(message_of<InvalidInput>([&] { LedgerWriter(folder / "notes", kPlan); }),
                HasSubstr("is no ledger"));
    EXPECT_THAT(message_of<InvalidInput>([&] { read_ledger(folder / "notes"); }),
                HasSubstr("is no ledger"));
    EXPECT_EQ(read_file(folder / "notes"), text);
  }
  before[20] ^= 1;
  write_file_atomically(folder / "ledger", before);
  EXPECT_THAT(message_of<InvalidInput>([&] { read_ledger(folder / "ledger"); }),
              HasSubstr("damaged in its first 64 bytes"));
  EXPECT_THROW(read_ledger(folder / "nothing"), SystemError);
}

TEST(LedgerFileTest, AppendsInMicroseconds) {
  ScratchFolder folder;
  LedgerPlan plan = kPlan;
  plan.shards = 8;
  LedgerWriter writer(folder / "ledger", plan);
  LedgerRecord record = update(0);
  record.counts.assign(8, 1);
  record.owners.assign(8, 0);
  constexpr int kRecords = 20'000;
  auto begin = Deadline::Clock::now();
  for (int i = 0; i < kRecords; ++i) {
    record.step = i;
    writer.append(record);
  }
  std::chrono::duration<double, std::micro> time = Deadline::Clock::now() - begin;
  auto opening = Deadline::Clock::now();
  EXPECT_EQ(LedgerWriter(folder / "ledger", plan).last_step(), kRecords - 1);
  std::chrono::duration<double, std::micro> opened = Deadline::Clock::now() - opening;
  std::printf("append: %.2f us a record of %zu bytes; opening after %d of them: %.0f us\n",
              time.count() / kRecords, record_bytes(plan), kRecords, opened.count());
  EXPECT_LT(time.count() / kRecords, 200);
}

// Ledgers of earlier versions are read again.
TEST(LedgerTest, BytesInAFileStayAsTheyAre) {
  const LedgerPlan plan{.samples = 1000,
                        .batch = 300,
                        .shards = 3,
                        .seed = 0x0102030405060708,
                        .shuffle = true,
                        .steps_per_epoch = 2};
  EXPECT_EQ(to_hex(encode_header(plan)),
            "434f484c45444731e8030000000000002c0100000000000003000000010000000807060504030201"
            "0200000000000000000000000000000000000000dcbacac9");
  const LedgerRecord record{.epoch = 1,
                            .step = 5,
                            .first = 600,
                            .view = 9,
                            .counts = {100, 100, 99},
                            .owners = {0, 1, 255}};
  std::string out;
  encode_record(plan, record, out);
  EXPECT_EQ(to_hex(out),
            "d5952357010100000005000000000000005802000000000000090000000000000064006400630000"
            "01ff");
  EXPECT_EQ(decode_record(plan, out)->record, record);
  encode_rewind(plan, 4, out);
  EXPECT_EQ(to_hex(out),
            "5d833e01020000000004000000000000000000000000000000000000000000000000000000000000"
            "0000");
  EXPECT_TRUE(decode_record(plan, out)->is_rewind);
  EXPECT_EQ(decode_record(plan, out)->record.step, 4);
}

}  // namespace
}  // namespace cohort::membership
