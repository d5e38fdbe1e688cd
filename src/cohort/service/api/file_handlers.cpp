#include <nlohmann/json.hpp>

#include "cohort/service/api/answer_later.h"
#include "cohort/service/api/archive_stream.h"
#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/api/source_upload.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/confined_files.h"
#include "cohort/service/http/time_text.h"
#include "cohort/service/store/source_store.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFiles = 100'000;

// "model", "output" or all.
std::vector<FileRoot> roots_of(const ApiRequest& request, const JobRow& job,
                               const std::string& part) {
  const RunFolders& folders = request.context.folders;
  std::vector<FileRoot> roots;
  if (part != "output") roots.push_back({"model", folders.model(job.id)});
  if (part != "model") roots.push_back({"output", output_folder(folders, job)});
  if (part != "all") return roots;
  for (int attempt = 1; attempt <= job.attempt; ++attempt) {
    const auto folder = folders.attempt(job.id, attempt);
    roots.push_back({fmt::format("logs/{}", attempt), folder / "run" / "logs"});
    roots.push_back({fmt::format("logs/{}/ranks", attempt), folder / "ranks"});
  }
  return roots;
}

std::string files_json(const std::vector<FileRoot>& roots) {
  Json files = Json::array();
  for (const FileEntry& file : list_files(roots, kMostFiles))
    files.push_back(
        {{"path", file.path}, {"bytes", file.bytes}, {"modified", time_text(file.modified)}});
  return dumped({{"files", std::move(files)}});
}

}  // namespace

std::filesystem::path output_folder(const RunFolders& folders, const JobRow& job) {
  const Json spec = Json::parse(job.spec, nullptr, /*allow_exceptions=*/false);
  const std::filesystem::path named =
      spec.is_object() && spec.contains("output") && spec["output"].is_string()
          ? spec["output"].get<std::string>()
          : "";
  return named.is_absolute() ? named : folders.output(job.id);
}

HttpResponse list_job_files(ApiRequest& request) {
  request.query.require_only({});
  const JobRow job = seen_job(request);
  return answer_later(
      request.context.background, request.http.wake,
      [roots = roots_of(request, job, "all")] { return files_json(roots); },
      [](std::string json) { return json_response(200, std::move(json)); });
}

HttpResponse read_job_file(ApiRequest& request) {
  request.query.require_only({});
  const JobRow job = seen_job(request);
  HttpResponse response = file_response(roots_of(request, job, "all"), request.part("path"),
                                        find_header(request.http.headers, "range"));
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  // A browser that is led to the file itself shows it, and runs nothing of it.
  response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; sandbox");
  return response;
}

HttpResponse read_archive(ApiRequest& request) {
  request.query.require_only({"part"});
  const JobRow job = seen_job(request);
  const std::string asked = request.query.get("part");
  const std::string part = asked.empty() ? "all" : asked;
  if (part != "model" && part != "output" && part != "all")
    throw ApiError(400, "part must be model, output or all");
  HttpResponse response;
  response.type = "application/x-tar";
  response.stream = archive_stream(roots_of(request, job, part));
  return response;
}

HttpResponse find_source(ApiRequest& request) {
  require_sha256(request.part("sha256"));
  if (!use_source(request.context.folders, request.part("sha256")))
    throw ApiError(404, "this source is not there");
  return {.status = 200};
}

// The upload's sink answers (Api::on_head); this is reached where a request came without a body.
HttpResponse put_source(ApiRequest& request) {
  return source_upload(request.context.folders, request.part("sha256"), request.context.background,
                       request.http.wake)
      ->finish();
}

}  // namespace cohort::service
