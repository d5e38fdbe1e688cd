#include "cohort/launch/process/memory_pressure.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace cohort::launch {
namespace {

constexpr pid_t kNobody = 4'194'305;  // larger than any process number

bool say_to_kernel_log(const std::string& text) {
  UniqueFd fd(::open("/dev/kmsg", O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

TEST(OomWatch, OnlyWhatTheKernelSaysSinceTheJobBeganIsEvidence) {
  const std::string line = "Killed process " + std::to_string(kNobody) + " (a test of cohort's)";
  if (!say_to_kernel_log(line)) GTEST_SKIP() << "writing to /dev/kmsg needs root";
  OomWatch watch;
  EXPECT_EQ(watch.evidence(kNobody).find("Killed process"), std::string::npos);
  ASSERT_TRUE(say_to_kernel_log(line));
  EXPECT_NE(watch.evidence(kNobody).find("Killed process"), std::string::npos);
  EXPECT_NE(watch.evidence(kNobody).find("Killed process"), std::string::npos);  // and stays so
}

}  // namespace
}  // namespace cohort::launch
