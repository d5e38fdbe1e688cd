#include "cohort/jobspec/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

#include "cohort/base/error.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/mpirun_options.h"

namespace cohort::jobspec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The words that a real process gets when a shell reads `text` behind its name.
Words printed_words(const std::string& text) {
  const std::string line = "printf '%s\\001' " + text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    output.append(buffer.data(), count);
  if (!output.empty()) output.pop_back();
  return split(output, '\001');
}

TEST(JobWords, HyperparametersBecomeOptions) {
  EXPECT_THAT(hyperparameter_words({{"lr", "0.1"},
                                    {"layers", "[64,10]"},
                                    {"amp", "true"},
                                    {"name", R"("a b")"},
                                    {"nested", R"({"a":{"b":[1,"x"]}})"}}),
              ElementsAre("--lr", "0.1", "--layers", "[64,10]", "--amp", "true", "--name", "a b",
                          "--nested", R"({"a":{"b":[1,"x"]}})"));
  EXPECT_THAT(message_of<InvalidInput>([] {
                hyperparameter_words({{"a", "null"}});
              }),
              HasSubstr("hyperparameter 'a' is null"));
  EXPECT_THAT(message_of<InvalidInput>([] {
                hyperparameter_words({{"--a", "1"}});
              }),
              HasSubstr("'--a'"));
}

TEST(JobWords, SurviveAShell) {
  const Words words = {"--name",
                       "a b",
                       "it's",
                       "\"q\"",
                       "$HOME `id` $(id)",
                       "back\\slash",
                       "*",
                       "new\nline",
                       "tab\there",
                       "[64,10]",
                       R"({"a": "b'c"})",
                       "ä€",
                       "-x",
                       ";&|<>",
                       "~",
                       "!",
                       "#no"};
  EXPECT_EQ(printed_words(shell_text(words)), words);
}

TEST(JobWords, RunOptionsAreThoseOfTheCommandLine) {
  EXPECT_THAT(run_option_words({{"workers", "4"},
                                {"quiet", "true"},
                                {"evaluator", "false"},
                                {"hosts", R"(["a","b:2"])"},
                                {"grace", "1.5"}}),
              ElementsAre("--workers", "4", "--quiet", "--evaluator=false", "--hosts", "a",
                          "--hosts", "b:2", "--grace", "1.5"));
}

TEST(JobWords, AreSplitAsAShellWould) {
  for (const char* text : {"--a b  c", "'a b' \"c d\"", "a'b'\"c\"d", "\"a \\\" b\" 'c \\ d'",
                           "a\\ b", "\"\" ''", "--x=\"1 2\""})
    EXPECT_EQ(split_words(text), printed_words(text)) << text;
  EXPECT_THAT(split_words("  \n\t "), IsEmpty());
  EXPECT_THAT(message_of<InvalidInput>([] { split_words("a 'b"); }),
              HasSubstr("quote without an end"));
}

TEST(MpiWords, OptionsOfMpirunArePassedOnWordByWord) {
  const MpiWords result = mpi_option_words(
      "--bind-to none -map-by slot -x PATH -mca btl ^openib --mca plm_rsh_args '-p 12345' "
      "--oversubscribe --tag-output");
  EXPECT_THAT(result.words, ElementsAre("--bind-to", "none", "-map-by", "slot", "-x", "PATH",
                                        "-mca", "btl", "^openib", "--mca", "plm_rsh_args",
                                        "-p 12345", "--oversubscribe", "--tag-output"));
  EXPECT_THAT(result.notes, IsEmpty());
}

TEST(MpiWords, OthersBecomeVariablesAndAreNoted) {
  const MpiWords result = mpi_option_words("--NCCL_DEBUG INFO --bind-to none --HOROVOD_TIMELINE=t");
  EXPECT_THAT(result.words, ElementsAre("-x", "NCCL_DEBUG=INFO", "--bind-to", "none", "-x",
                                        "HOROVOD_TIMELINE=t"));
  EXPECT_THAT(result.notes,
              ElementsAre(HasSubstr("NCCL_DEBUG=INFO"), HasSubstr("no option --HOROVOD_TIMELINE")));
}

TEST(MpiWords, WhatCannotBeMeantIsRefused) {
  const auto refusal = [](const char* text) {
    return message_of<InvalidInput>([text] { mpi_option_words(text); });
  };
  EXPECT_THAT(refusal("INFO"), HasSubstr("'INFO' is neither an option of mpirun nor the value"));
  EXPECT_THAT(refusal("--NCCL_DEBUG INFO extra"), HasSubstr("'extra'"));
  EXPECT_THAT(refusal("--mca btl"), HasSubstr("--mca needs 2 values"));
  EXPECT_THAT(refusal("--bind-to"), HasSubstr("--bind-to needs 1 value"));
  EXPECT_THAT(refusal("-- x"), HasSubstr("'--'"));
  EXPECT_THAT(mpi_option_words("").words, IsEmpty());
  EXPECT_THAT(mpi_option_words("--no-such-flag").words, ElementsAre("--no-such-flag"));
}

TEST(MpiWords, NamesAndNumbersOfValuesAreThoseOfOpenMpi) {
  EXPECT_EQ(mpirun_option_values("np"), 1);
  EXPECT_EQ(mpirun_option_values("mca"), 2);
  EXPECT_EQ(mpirun_option_values("oversubscribe"), 0);
  EXPECT_EQ(mpirun_option_values("x"), 1);
  EXPECT_EQ(mpirun_option_values("NCCL_DEBUG"), std::nullopt);
}

}  // namespace
}  // namespace cohort::jobspec
