#include "cohort/report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cohort/base/data/byte_io.h"
#include "cohort/base/data/crc32c.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/process/machine.h"

// That the real TensorBoard reads all of it is the job of tests/report/event_file_test.py.
namespace cohort::report {
namespace {

using ::testing::HasSubstr;

std::uint32_t unmask(std::uint32_t masked) {
  std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

// Every record's data, its lengths and checksums checked.
std::vector<std::string> records(const std::filesystem::path& path) {
  std::string text = read_file(path);
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    auto size = get_integer<std::uint64_t>(&text[at]);
    EXPECT_EQ(unmask(get_integer<std::uint32_t>(&text[at + 8])), crc32c(&text[at], 8));
    all.push_back(text.substr(at + 12, size));
    EXPECT_EQ(unmask(get_integer<std::uint32_t>(&text[at + 12 + size])),
              crc32c(all.back().data(), size));
    at += 16 + size;
  }
  return all;
}

TEST(EventWriter, AFileBeginsWithItsVersionAndHoldsCheckedRecords) {
  ScratchFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("loss", 0.5, 3);
  writer.text("notes", "# hello", 0);
  writer.flush();
  auto found = records(writer.path());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(found[0], HasSubstr("brain.Event:2"));
  EXPECT_THAT(found[1], HasSubstr("loss"));
  EXPECT_THAT(found[2], HasSubstr("# hello"));
}

TEST(EventWriter, WritersOfOneProcessAndFolderHaveFilesOfTheirOwn) {
  ScratchFolder folder;
  EventWriter first(folder / "run"), second(folder / "run");
  EXPECT_NE(first.path(), second.path());
  std::string name = first.path().filename();
  EXPECT_TRUE(name.starts_with("events.out.tfevents."));
  EXPECT_TRUE(name.ends_with(fmt::format(".{}.{}.0", host_name(), ::getpid()))) << name;
}

TEST(EventWriter, ANumberThatIsNotFiniteIsSaidBesideTheHistogram) {
  ScratchFolder folder;
  EventWriter writer(folder.path());
  writer.histogram("weights", std::vector<float>{1.0f, NAN}, 1);
  writer.histogram("good", std::vector<float>{1.0f}, 1);
  writer.flush();
  auto found = records(writer.path());
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found[2], HasSubstr("weights/non_finite"));
}

TEST(EventWriter, AFolderThatCannotBeMadeIsAnErrorWithItsPath) {
  ScratchFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_THAT(message_of<SystemError>([&] { EventWriter writer(folder / "file/run"); }),
              HasSubstr((folder / "file/run").string()));
}

}  // namespace
}  // namespace cohort::report
