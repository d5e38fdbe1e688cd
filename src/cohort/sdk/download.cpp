#include "cohort/sdk/download.h"

#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/sdk/tar_unpacker.h"

namespace cohort::sdk {
namespace {

// What must come, and its size.
std::vector<JobFile> files_of_part(ServiceClient& client, const std::string& job,
                                   const std::string& part) {
  std::vector<JobFile> files = client.files(job);
  if (part != "all")
    std::erase_if(files, [&](const JobFile& file) { return !file.path.starts_with(part + "/"); });
  return files;
}

void require_whole(const std::vector<JobFile>& listed, const TarUnpacker& unpacked) {
  for (const auto& file : listed) {
    const auto found = unpacked.files().find(file.path);
    if (found != unpacked.files().end() && found->second == file.bytes) continue;
    throw Error(fmt::format("'{}' came with {} of {} bytes", escape_controls(file.path),
                            found == unpacked.files().end() ? 0 : found->second, file.bytes),
                {.advice = "Download it again."});
  }
}

}  // namespace

Downloaded download_files(ServiceClient& client, const std::string& job, const std::string& part,
                          const std::filesystem::path& folder,
                          const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const bool has_ended = client.job(job).has_ended();
  const auto listed = files_of_part(client, job, part);
  std::uint64_t all = 0;
  for (const auto& file : listed) all += file.bytes;
  TarUnpacker unpacker(folder);
  client.archive(job, part, [&](std::string_view bytes) {
    unpacker.feed(bytes);
    if (progress) progress(unpacker.bytes(), all);
  });
  unpacker.finish();
  if (has_ended) require_whole(listed, unpacker);
  return {
      .files = unpacker.files().size(), .bytes = unpacker.bytes(), .left_out = unpacker.left_out()};
}

}  // namespace cohort::sdk
