#include "cohort/jobspec/source/source_package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/message_of_test.h"
#include "cohort/jobspec/source/gzip.h"
#include "cohort/jobspec/source/tar_format.h"

namespace cohort::jobspec {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string id_of(const std::string& bytes) {
  Sha256 hash;
  hash.update(bytes);
  return to_hex(hash.finish());
}

class PackedFolders : public ::testing::Test {
 protected:
  PackedFolders() {
    fs::create_directories(source_);
    fs::create_directories(sources_);
  }
  ~PackedFolders() override {  // unpacked sources are read-only
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path()))
      if (entry.is_directory() && !entry.is_symlink())
        fs::permissions(entry.path(), fs::perms::owner_all);
  }

  fs::path write_archive(const std::string& bytes) {
    const fs::path path = scratch_ / "archive.tar.gz";
    write_file_atomically(path, bytes);
    return path;
  }
  fs::path unpack(const std::string& bytes, const SourceLimits& limits = {}) {
    return unpack_source(write_archive(bytes), id_of(bytes), sources_, limits);
  }
  std::string refusal(const std::vector<TarEntry>& entries) {
    GzipWriter tar;
    for (const TarEntry& entry : entries) {
      tar.write(tar_header(entry));
      tar.write(std::string(entry.size, 'x') + tar_padding(entry.size));
    }
    tar.write(tar_end());
    const std::string bytes = tar.finish();
    const std::string said = message_of<InvalidInput>([&] { unpack(bytes); });
    EXPECT_TRUE(fs::is_empty(sources_)) << "something is left of it";
    return said;
  }

  ScratchFolder scratch_;
  fs::path source_ = scratch_ / "code", sources_ = scratch_ / "sources";
};

const std::string kLongName(120, 'n');

TEST_F(PackedFolders, TheSameContentGivesTheSameArchiveWhateverItsTimes) {
  put(source_ / "train.py", "print('hi')\n");
  put(source_ / "lib/b.py", "b");
  put(source_ / "lib/a.py", "a");
  const PackedSource first = pack_source(source_);
  fs::last_write_time(source_ / "train.py",
                      fs::file_time_type::clock::now() - std::chrono::hours(9));
  fs::permissions(source_ / "lib/a.py", fs::perms::owner_read);
  EXPECT_EQ(pack_source(source_).id, first.id);
  EXPECT_TRUE(is_source_id(first.id));
  EXPECT_EQ(first.files, 4u);
  put(source_ / "train.py", "print('ho')\n");
  EXPECT_NE(pack_source(source_).id, first.id);
}

TEST_F(PackedFolders, WhatIsPackedComesOutReadOnlyWithLongNamesLinksAndTheRightToExecute) {
  put(source_ / "run.sh", "#!/bin/sh\n");
  fs::permissions(source_ / "run.sh", fs::perms::owner_all);
  put(source_ / kLongName / kLongName / "deep.txt", std::string(100'000, 'd'));
  put(source_ / "empty", "");
  fs::create_symlink("run.sh", source_ / "link");
  fs::create_symlink("../run.sh", source_ / kLongName / "up");
  const PackedSource packed = pack_source(source_);
  const fs::path place = unpack(packed.archive);
  EXPECT_EQ(place, sources_ / packed.id);
  EXPECT_EQ(read_file(place / kLongName / kLongName / "deep.txt"), std::string(100'000, 'd'));
  EXPECT_EQ(read_file(place / kLongName / "up"), "#!/bin/sh\n");
  EXPECT_EQ(fs::read_symlink(place / "link"), "run.sh");
  EXPECT_EQ(fs::status(place / "run.sh").permissions(), fs::perms(0555));
  EXPECT_EQ(fs::status(place / "empty").permissions(), fs::perms(0444));
  EXPECT_EQ(fs::status(place).permissions(), fs::perms(0555));
  EXPECT_EQ(pack_source(place).id, packed.id);
}

TEST_F(PackedFolders, WhatTheIgnoreFileNamesStaysOut) {
  put(source_ / ".cohortignore", "*.bin\n/data/\n");
  put(source_ / "train.py", "x");
  put(source_ / "model.bin", "x");
  put(source_ / "data/1", "x");
  put(source_ / ".git/config", "x");
  put(source_ / "lib/__pycache__/x.pyc", "x");
  put(source_ / ".venv/bin/python", "x");
  const fs::path place = unpack(pack_source(source_).archive);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(place)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(".cohortignore", "train.py", "lib"));
}

TEST_F(PackedFolders, GnuTarAndPythonReadWhatIsWrittenHere) {
  put(source_ / kLongName / "train.py", "print(1)\n");
  write_archive(pack_source(source_).archive);
  const std::string archive = (scratch_ / "archive.tar.gz").string();
  EXPECT_EQ(
      std::system(fmt::format("tar -tzf {} | grep -q {}/train.py", archive, kLongName).c_str()), 0);
  const std::string script = fmt::format(
      "import tarfile\nt = tarfile.open('{}')\nm = t.getmember('{}/train.py')\n"
      "assert (m.mtime, m.uid, m.mode) == (0, 0, 0o644), m\n"
      "assert t.extractfile(m).read() == b'print(1)\\n'\n",
      archive, kLongName);
  put(scratch_ / "read.py", script);
  EXPECT_EQ(std::system(fmt::format("python3 {}", (scratch_ / "read.py").string()).c_str()), 0);
}

TEST_F(PackedFolders, ArchivesOfPythonAndGnuTarAreUnpacked) {
  put(source_ / kLongName / "train.py", "print(1)\n");
  put(source_ / "ä.txt", "umlaut");
  fs::create_symlink("ä.txt", source_ / "link");
  const std::string archive = (scratch_ / "other.tar.gz").string();
  for (const char* format : {"PAX", "GNU"}) {
    put(scratch_ / "pack.py",
        fmt::format(
            "import tarfile\nwith tarfile.open('{}', 'w:gz', format=tarfile.{}_FORMAT) as t:\n"
            "  t.add('{}', arcname='.')\n",
            archive, format, source_.string()));
    ASSERT_EQ(std::system(fmt::format("python3 {}", (scratch_ / "pack.py").string()).c_str()), 0);
    const fs::path place = unpack(read_file(archive));
    EXPECT_EQ(read_file(place / kLongName / "train.py"), "print(1)\n");
    EXPECT_EQ(read_file(place / "link"), "umlaut");
  }
  ASSERT_EQ(std::system(fmt::format("tar -czf {} -C {} .", archive, source_.string()).c_str()), 0);
  EXPECT_EQ(read_file(unpack(read_file(archive)) / "ä.txt"), "umlaut");
}

TEST_F(PackedFolders, AnArchiveThatLeadsOutOfItsFolderIsRefused) {
  using Kind = TarEntry::Kind;
  EXPECT_THAT(refusal({{.path = "/etc/x", .size = 1}}), HasSubstr("leads out of its folder"));
  EXPECT_THAT(refusal({{.path = "a/../../x", .size = 1}}), HasSubstr("leads out of its folder"));
  EXPECT_THAT(refusal({{.path = "a/../x", .size = 1}}), HasSubstr("leads out of its folder"));
  EXPECT_THAT(refusal({{.kind = Kind::link, .path = "l", .target = "/etc"}}),
              HasSubstr("link 'l' leads out"));
  EXPECT_THAT(refusal({{.kind = Kind::link, .path = "l", .target = "../x"}}),
              HasSubstr("link 'l' leads out"));
  EXPECT_THAT(refusal({{.kind = Kind::folder, .path = "d"},
                       {.kind = Kind::link, .path = "d/x", .target = ".."},
                       {.kind = Kind::link, .path = "y", .target = "d/x/../.."}}),
              HasSubstr("link 'y' leads out"));
  EXPECT_THAT(
      refusal({{.kind = Kind::link, .path = "l", .target = "d"}, {.path = "l/file", .size = 1}}),
      HasSubstr("lies behind a link"));
  EXPECT_THAT(refusal({{.kind = Kind::hard_link, .path = "h", .target = "../../etc/passwd"}}),
              HasSubstr("a link to something else"));
  EXPECT_THAT(refusal({{.path = "twice", .size = 1}, {.path = "twice", .size = 1}}),
              HasSubstr("is there twice"));
}

TEST_F(PackedFolders, ABrokenForeignOrLargeArchiveIsRefused) {
  put(source_ / "train.py", std::string(5000, 'x'));
  const PackedSource packed = pack_source(source_);
  const std::string cut = packed.archive.substr(0, packed.archive.size() / 2);
  EXPECT_THAT(message_of<InvalidInput>([&] { unpack(cut); }), HasSubstr("cut short"));
  EXPECT_THAT(message_of<InvalidInput>([&] { unpack("no archive at all"); }),
              HasSubstr("no gzip file"));
  EXPECT_THAT(message_of<InvalidInput>([&] { unpack(packed.archive, {.most_bytes = 4999}); }),
              HasSubstr("more than 4999 bytes"));
  EXPECT_THAT(message_of<InvalidInput>([&] { unpack(packed.archive, {.most_files = 0}); }),
              HasSubstr("too many files"));
  EXPECT_THAT(message_of<InvalidInput>([&] { pack_source(source_, {.most_bytes = 4999}); }),
              HasSubstr(".cohortignore"));
  const fs::path archive = write_archive(packed.archive);
  EXPECT_THAT(message_of<InvalidInput>([&] { unpack_source(archive, id_of("x"), sources_); }),
              HasSubstr("SHA-256 is " + packed.id));
  EXPECT_TRUE(fs::is_empty(sources_));
}

TEST_F(PackedFolders, DevicesAndLinksOutOfTheFolderAreNotPacked) {
  fs::create_symlink("/etc", source_ / "etc");
  EXPECT_THAT(message_of<InvalidInput>([&] { pack_source(source_); }),
              HasSubstr("leads out of it"));
  fs::remove(source_ / "etc");
  ASSERT_EQ(std::system(fmt::format("mkfifo {}/pipe", source_.string()).c_str()), 0);
  EXPECT_THAT(message_of<InvalidInput>([&] { pack_source(source_); }), HasSubstr("'pipe'"));
}

TEST_F(PackedFolders, SeveralProcessesUnpackOnce) {
  for (int i = 0; i < 200; ++i) put(source_ / std::to_string(i), std::string(1000, 'x'));
  const PackedSource packed = pack_source(source_);
  const fs::path archive = write_archive(packed.archive);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      bool done = false;
      try {
        done = fs::exists(unpack_source(archive, packed.id, sources_) / "199");
      } catch (...) {
      }
      ::_exit(done ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(sources_), {}), 1);
}

}  // namespace
}  // namespace cohort::jobspec
