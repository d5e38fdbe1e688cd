#include "cohort/service/http/confined_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <semaphore>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/base/text.h"
#include "cohort/service/api/archive_stream.h"
#include "cohort/service/api/source_upload.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/store/source_store.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::string all_of(BodyStream& stream) {
  std::string bytes;
  while (stream.next(bytes).kind != BodyStream::Then::Kind::end) {
  }
  return bytes;
}

class ConfinedFiles : public testing::Test {
 protected:
  ConfinedFiles() {
    put(folder_ / "output" / "a.txt", "a");
    put(folder_ / "output" / "deep" / "er" / "b.txt", "bb");
    put(folder_ / "secret.txt", "secret");
    fs::create_symlink(folder_ / "secret.txt", folder_ / "output" / "link.txt");
    fs::create_symlink(folder_.path(), folder_ / "output" / "folder_link");
    fs::create_symlink("deep", folder_ / "output" / "inside");
    ::mkfifo((folder_ / "output" / "fifo").c_str(), 0600);
    roots_ = {{"output", folder_ / "output"}, {"model", folder_ / "none"}};
  }

  // The bytes, or "404".
  std::string read(const std::string& path) {
    try {
      HttpResponse response = file_response(roots_, path);
      return all_of(*response.stream);
    } catch (const ApiError& error) {
      return std::to_string(error.status());
    }
  }

  ScratchFolder folder_;
  std::vector<FileRoot> roots_;
};

TEST_F(ConfinedFiles, AreListedAndRead) {
  std::vector<std::string> paths;
  for (const FileEntry& file : list_files(roots_, 10)) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("output/a.txt", "output/deep/er/b.txt"));
  EXPECT_EQ(read("output/a.txt"), "a");
  EXPECT_EQ(read("output/deep/er/b.txt"), "bb");
  EXPECT_THROW(list_files(roots_, 1), ApiError);
}

TEST_F(ConfinedFiles, PathsDoNotLeaveTheFolder) {
  const std::string whole = (folder_ / "secret.txt").string();
  for (const std::string& path : std::vector<std::string>{
           "secret.txt", "output/../secret.txt", "output/deep/../../secret.txt", "output/link.txt",
           "output/folder_link/secret.txt", "output/" + whole, whole, "output//a.txt",
           "output/./a.txt", "output/inside/er/b.txt", "output/", "output", "output/deep",
           "output/fifo", std::string("output/a.txt\0x", 14), "../output/a.txt", "outputa.txt"})
    EXPECT_EQ(read(path), "404") << path;
}

TEST_F(ConfinedFiles, AreConfinedWithoutOpenat2Too) {
  const UniqueFd root = open_folder(folder_ / "output");
  const auto opens = [&root](const std::string& path) {
    return open_beneath_by_steps(root.get(), path, O_RDONLY | O_NONBLOCK).valid();
  };
  EXPECT_TRUE(opens("a.txt"));
  EXPECT_TRUE(opens("deep/er/b.txt"));
  for (const char* path : {"../secret.txt", "link.txt", "folder_link/secret.txt", "/etc/passwd",
                           "inside/er/b.txt", "", ".", ".."})
    EXPECT_FALSE(opens(path)) << path;
}

TEST_F(ConfinedFiles, AFolderThatWasReplacedByALinkIsEmpty) {
  fs::create_directory_symlink(folder_.path(), folder_ / "swapped");
  roots_ = {{"output", folder_ / "swapped"}};
  EXPECT_THAT(list_files(roots_, 10), IsEmpty());
  EXPECT_EQ(read("output/secret.txt"), "404");
}

TEST_F(ConfinedFiles, GivesAPartOfAFile) {
  put(folder_ / "output/digits", "0123456789");
  // "status range bytes"
  const auto part = [&](const std::string& range) {
    try {
      HttpResponse response = file_response(roots_, "output/digits", &range);
      const std::string* header = find_header(response.headers, "content-range");
      return fmt::format("{} {} {}", response.status, header ? *header : "-",
                         all_of(*response.stream));
    } catch (const ApiError& error) {
      return std::to_string(error.status());
    }
  };
  EXPECT_EQ(part("bytes=2-4"), "206 bytes 2-4/10 234");
  EXPECT_EQ(part("bytes=0-0"), "206 bytes 0-0/10 0");
  EXPECT_EQ(part("bytes=7-"), "206 bytes 7-9/10 789");
  EXPECT_EQ(part("bytes=-3"), "206 bytes 7-9/10 789");
  EXPECT_EQ(part("bytes=-30"), "206 bytes 0-9/10 0123456789");
  EXPECT_EQ(part("bytes=8-99999999999"), "206 bytes 8-9/10 89");
  EXPECT_EQ(part("bytes=8-18446744073709551615"), "206 bytes 8-9/10 89");
  EXPECT_EQ(part("bytes=10-"), "416");
  EXPECT_EQ(part("bytes=-0"), "416");
  for (const char* whole : {"bytes=4-2", "bytes=1-2,4-5", "bytes=x-", "bytes=-", "bytes=5",
                            "lines=1-2", "bytes=99999999999999999999-"})
    EXPECT_EQ(part(whole), "200 - 0123456789") << whole;
}

TEST_F(ConfinedFiles, ArchiveIsReadByTar) {
  const std::string longer(150, 'n');
  const std::string large(200'000, 'x');
  put(folder_ / "output" / longer / "c.txt", large);
  put(folder_ / "out.tar", all_of(*archive_stream(roots_)));
  fs::create_directory(folder_ / "unpacked");
  const std::string command = "tar -xf " + shell_quote((folder_ / "out.tar").string()) + " -C " +
                              shell_quote((folder_ / "unpacked").string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  const fs::path output = folder_ / "unpacked/output";
  EXPECT_EQ(read_file(output / "a.txt"), "a");
  EXPECT_EQ(read_file(output / "deep/er/b.txt"), "bb");
  EXPECT_EQ(read_file(output / longer / "c.txt"), large);
  EXPECT_EQ(fs::read_symlink(output / "inside"), "deep");
  EXPECT_FALSE(fs::exists(fs::symlink_status(output / "link.txt")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(output / "fifo")));
}

// Uploads whose answers are waited for.
struct Uploads {
  std::binary_semaphore woken{0};
  Background background{1};

  std::unique_ptr<BodySink> begin(const RunFolders& folders, const std::string& id) {
    return source_upload(folders, id, background, [this] { woken.release(); });
  }
  int status(BodySink& upload) {
    HttpResponse response = upload.finish();
    if (!response.later) return response.status;
    woken.acquire();
    return response.later->take().value().status;
  }
};

TEST(SourceUpload, IsStoredOnceItsHashFits) {
  ScratchFolder root;
  Uploads uploads;
  const RunFolders folders{root.path()};
  const std::string bytes(100'000, 's');
  const std::string id = to_hex(sha256(bytes));
  EXPECT_FALSE(use_source(folders, id));
  auto upload = uploads.begin(folders, id);
  EXPECT_FALSE(upload->write(bytes.substr(0, 5)));
  EXPECT_FALSE(use_source(folders, id));
  EXPECT_FALSE(upload->write(bytes.substr(5)));
  EXPECT_EQ(uploads.status(*upload), 201);
  EXPECT_EQ(read_file(source_file(folders, id)), bytes);
  auto again = uploads.begin(folders, id);
  EXPECT_FALSE(again->write(bytes));
  EXPECT_EQ(uploads.status(*again), 200);
}

TEST(SourceUpload, LeavesNothingWhenTheHashDiffersOrItIsBrokenOff) {
  ScratchFolder root;
  Uploads uploads;
  const RunFolders folders{root.path()};
  const std::string id = to_hex(sha256("right"));
  auto upload = uploads.begin(folders, id);
  EXPECT_FALSE(upload->write("wrong"));
  EXPECT_EQ(uploads.status(*upload), 400);
  upload = uploads.begin(folders, id);
  EXPECT_FALSE(upload->write("righ"));
  upload.reset();
  EXPECT_FALSE(use_source(folders, id));
  EXPECT_TRUE(fs::is_empty(folders.sources()));
  put(folders.sources() / ".upload-abc", "left by a crash");
  remove_partial_uploads(folders);
  EXPECT_TRUE(fs::is_empty(folders.sources()));
  for (const std::string& wrong : {std::string("../x"), id + "0", std::string(64, 'G')})
    EXPECT_THROW(uploads.begin(folders, wrong), ApiError);
}

}  // namespace
}  // namespace cohort::service
