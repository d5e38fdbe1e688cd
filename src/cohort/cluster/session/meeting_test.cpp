#include "cohort/cluster/session/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/base/process/process.h"

namespace cohort::cluster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const Address kStore{"127.0.0.1", 4000};

// The identity of a process that has ended.
std::string ended_process() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  std::string identity = process_identity(child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return identity;
}

void leave_note(const fs::path& path, const std::string& process) {
  std::ofstream(path) << "store 127.0.0.1:4000\nprocess " << process << "\nsecret none\n";
}

int mode_of(const fs::path& path) { return static_cast<int>(fs::status(path).permissions()); }

TEST(Meeting, ANoteTellsTheStoreAndTheSecretThatRank0Made) {
  ScratchFolder folder;
  const Secret secret = Secret::generate();
  EXPECT_FALSE(read_meeting_note(folder.path(), "job"));
  {
    const MeetingNote note(folder.path(), "job", kStore, secret);
    const auto place = read_meeting_note(folder.path(), "job");
    ASSERT_TRUE(place);
    EXPECT_EQ(place->store, kStore);
    EXPECT_EQ(place->secret->bytes(), secret.bytes());
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (entry.path().extension() == ".secret") {
        EXPECT_EQ(mode_of(entry.path()), 0600);
      }
    EXPECT_FALSE(read_meeting_note(folder.path(), "another"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Meeting, ANoteOfAKilledJobIsNotBelievedAndIsReplaced) {
  ScratchFolder folder;
  leave_note(folder.path() / "job.note", ended_process());
  EXPECT_FALSE(read_meeting_note(folder.path(), "job"));
  const MeetingNote note(folder.path(), "job", {"127.0.0.1", 5000}, std::nullopt);
  EXPECT_EQ(read_meeting_note(folder.path(), "job")->store.port, 5000);
}

TEST(Meeting, OldNotesOfEndedProcessesAreRemovedThoseOfOthersStay) {
  ScratchFolder folder;
  std::string elsewhere = ended_process();
  elsewhere.front() = elsewhere.front() == 'a' ? 'b' : 'a';  // another kernel
  leave_note(folder.path() / "ended.note", ended_process());
  leave_note(folder.path() / "young.note", ended_process());
  leave_note(folder.path() / "running.note", process_identity(::getpid()));
  leave_note(folder.path() / "elsewhere.note", elsewhere);
  for (const char* name : {"ended.note", "running.note", "elsewhere.note"})
    fs::last_write_time(folder.path() / name,
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
  const MeetingNote note(folder.path(), "job", kStore, std::nullopt);
  EXPECT_FALSE(fs::exists(folder.path() / "ended.note"));
  for (const char* name : {"young.note", "running.note", "elsewhere.note"})
    EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
}

TEST(Meeting, ARunningJobOfTheSameNameIsNotPushedAside) {
  ScratchFolder folder;
  const MeetingNote first(folder.path(), "job", kStore, std::nullopt);
  const std::string text = message_of<InvalidInput>([&] {
    MeetingNote second(folder.path(), "job", {"127.0.0.1", 5000}, std::nullopt);
  });
  EXPECT_THAT(text, HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_THAT(text, HasSubstr("COHORT_JOB"));
  EXPECT_EQ(read_meeting_note(folder.path(), "job")->store, kStore);
}

TEST(Meeting, ASecretThatOthersCanReadIsRefused) {
  ScratchFolder folder;
  const MeetingNote note(folder.path(), "job", kStore, Secret::generate());
  for (const auto& entry : fs::directory_iterator(folder.path()))
    fs::permissions(entry.path(), fs::perms::others_read, fs::perm_options::add);
  EXPECT_THAT(message_of<InvalidInput>([&] { read_meeting_note(folder.path(), "job"); }),
              HasSubstr("open to other users"));
}

TEST(Meeting, ATextThatIsNoNoteIsIgnored) {
  ScratchFolder folder;
  for (const std::string text :
       {"", "store nowhere\n", "store a:1\nprocess x\nsecret ../../etc/passwd\n",
        "process x\nstore a:1\nsecret none\n"}) {
    write_file_atomically(folder.path() / "job.note", text);
    EXPECT_FALSE(read_meeting_note(folder.path(), "job")) << text;
  }
}

TEST(Meeting, TheFolderIsPrivateToItsUser) {
  ScratchFolder scratch;
  const fs::path made = meeting_folder("", scratch.path());
  EXPECT_EQ(made, scratch.path() / "cohort");
  EXPECT_EQ(mode_of(made), 0700);
  fs::permissions(made, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(message_of<InvalidInput>([&] { meeting_folder("", scratch.path()); }),
              HasSubstr("mode 0702"));
  fs::remove(made);
  fs::create_directory_symlink(scratch.path(), made);
  EXPECT_THAT(message_of<InvalidInput>([&] { meeting_folder("", scratch.path()); }),
              HasSubstr("is not a folder"));
  EXPECT_EQ(meeting_folder(scratch.path() / "given", ""), scratch.path() / "given");
  EXPECT_THAT(message_of<InvalidInput>([&] { meeting_folder(scratch.path() / "a" / "b", ""); }),
              HasSubstr("COHORT_MEET"));
}

TEST(Meeting, AnyLaunchMakesAFileName) {
  EXPECT_EQ(meeting_name("OpenMPI-prterun-host-5@1-1"), "OpenMPI-prterun-host-5_1-1");
  EXPECT_EQ(meeting_name("../x/y.note"), "___x_y_note");
  EXPECT_LE(meeting_name(std::string(1000, 'a')).size(), 200u);
}

TEST(Meeting, AWatchEndsWhenANoteComes) {
  ScratchFolder folder;
  MeetingWatch watch(folder.path());
  const MeetingNote note(folder.path(), "job", kStore, std::nullopt);
  const auto start = Deadline::Clock::now();
  watch.await_change(Deadline::after(std::chrono::seconds(10)));
  EXPECT_LT(Deadline::Clock::now() - start, std::chrono::milliseconds(90));
}

}  // namespace
}  // namespace cohort::cluster
