#include "cohort/sdk/download.h"

#include <gmock/gmock.h>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/message_of_test.h"
#include "cohort/jobspec/source/tar_format.h"
#include "cohort/sdk/small_service_test.h"

namespace cohort::sdk {
namespace {

using jobspec::TarEntry;
using testing::HasSubstr;

std::string tar_file(const std::string& path, const std::string& text) {
  return jobspec::tar_header({.path = path, .size = text.size()}) + text +
         jobspec::tar_padding(text.size());
}

// A service with one ended job that lists `files` and sends `archive`.
SmallService::Answer job_with(std::string files, std::string archive) {
  return [files = std::move(files), archive = std::move(archive)](const HttpRequest& request) {
    if (request.target.find("/archive") != std::string::npos)
      return HttpResponse{.body = archive, .type = "application/x-tar"};
    if (request.target.ends_with("/files")) return json_answer(R"({"files":[)" + files + "]}");
    return json_answer(job_json("succeeded"));
  };
}

TEST(Download, FilesLieAsTheServiceNamesThemAndAreWhole) {
  ScratchFolder folder;
  SmallService service(job_with(
      R"({"path":"model/deep/w","bytes":700,"modified":""},{"path":"logs/x","bytes":1,"modified":""})",
      tar_file("model/deep/w", std::string(700, 'w')) +
          jobspec::tar_header({.kind = TarEntry::Kind::link, .path = "model/l", .target = "w"}) +
          jobspec::tar_end()));
  ServiceClient client(service.address());
  std::uint64_t told = 0;
  const Downloaded done = download_files(client, "x", "model", folder / "to",
                                         [&](std::uint64_t bytes, std::uint64_t all) {
                                           told = bytes;
                                           EXPECT_EQ(all, 700U);
                                         });
  EXPECT_EQ(done.files, 1U);
  EXPECT_EQ(done.left_out, 1);
  EXPECT_EQ(told, 700U);
  EXPECT_EQ(read_file(folder / "to" / "model/deep/w"), std::string(700, 'w'));
}

TEST(Download, AFileThatIsMissingOrShortIsAnError) {
  ScratchFolder folder;
  SmallService service(job_with(R"({"path":"model/w","bytes":5,"modified":""})",
                                tar_file("model/w", "1234") + jobspec::tar_end()));
  ServiceClient client(service.address());
  EXPECT_THAT(message_of<Error>([&] { download_files(client, "x", "all", folder.path()); }),
              HasSubstr("'model/w' came with 4 of 5 bytes"));
}

TEST(Download, NothingIsWrittenOutsideOfTheFolder) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "to");
  std::filesystem::create_directory(folder / "outside");
  std::filesystem::create_directory_symlink(folder / "outside", folder / "to" / "model");
  for (const char* path : {"../outside/w", "/tmp/w", "model/../../w", "model/w"}) {
    SmallService service(job_with("", tar_file(path, "x") + jobspec::tar_end()));
    ServiceClient client(service.address());
    EXPECT_THROW(download_files(client, "x", "all", folder / "to"), Error) << path;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "outside"));
}

}  // namespace
}  // namespace cohort::sdk
