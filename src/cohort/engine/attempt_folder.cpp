#include "cohort/engine/attempt_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/files/folder_lock.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/process/process.h"
#include "cohort/base/text.h"
#include "cohort/base/unique_fd.h"
#include "cohort/jobspec/spec_json.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostRequestBytes = std::size_t{16} << 20;
constexpr std::size_t kMostClaimBytes = 4096;

void sync_folder(const fs::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0)
    throw SystemError(fmt::format("cannot write '{}'", folder.string()), errno);
}

// Nothing where there is no such file, or something else lies there; the folder may be removed at
// any time.
std::optional<std::string> read_if_there(const fs::path& path, std::size_t most_bytes) {
  try {
    return read_own_file(path, most_bytes);
  } catch (const SystemError& error) {
    if (error.code() != ENOENT && error.code() != ENOTDIR) throw;
    return std::nullopt;
  } catch (const InvalidInput&) {  // a link, a pipe, another user's
    return std::nullopt;
  }
}

std::string text_in(const ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string to_json(const AttemptRequest& request) {
  return ordered_json{{"id", request.id},
                      {"output", request.output.string()},
                      {"model", request.model.string()},
                      {"source", request.source.string()},
                      {"job", ordered_json::parse(jobspec::to_json(request.job))},
                      {"instances", request.instances},
                      {"gpu_indices", request.gpu_indices},
                      {"resume", request.resume}}
      .dump();
}

AttemptRequest attempt_from_json(std::string_view text, const fs::path& folder) {
  try {
    const auto json = ordered_json::parse(text);
    return {.id = json.at("id"),
            .folder = folder,
            .output = json.at("output").get<std::string>(),
            .model = json.at("model").get<std::string>(),
            .source = json.at("source").get<std::string>(),
            .job = jobspec::resolved_from_json(json.at("job").dump()),
            .instances = json.at("instances"),
            .gpu_indices = json.at("gpu_indices"),
            .resume = json.at("resume")};
  } catch (const nlohmann::json::exception& error) {
    throw InvalidInput(fmt::format("'{}' does not hold an attempt of this version: {}",
                                   folder.string(), error.what()),
                       {.advice = "Submit the job again."});
  }
}

void write_request(const AttemptRequest& request) {
  const AttemptFolder folder{request.folder};
  make_own_folder(folder.path);
  write_file_atomically(folder.request(), to_json(request), 0600);  // variables may hold secrets
}

AttemptRequest read_request(const AttemptFolder& folder) {
  return attempt_from_json(read_own_file(folder.request(), kMostRequestBytes), folder.path);
}

// A link to a whole file: a process that sees the claim can read it.
bool claim_attempt(const AttemptFolder& folder, const std::string& owner) {
  // Of other machines there may be processes of the same number.
  const std::string self = process_identity(::getpid());
  const fs::path mine = fmt::format("{}.{}-{:x}", folder.claim().string(), ::getpid(),
                                    std::hash<std::string>()(self));
  write_file_atomically(mine, owner + "\n", 0600);
  const UniqueFd fd(::open(mine.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0)
    throw SystemError(fmt::format("cannot write '{}'", mine.string()), errno);
  const int code = ::link(mine.c_str(), folder.claim().c_str()) == 0 ? 0 : errno;
  ::unlink(mine.c_str());
  if (code == EEXIST) return false;
  if (code != 0) throw SystemError(fmt::format("cannot write '{}'", folder.claim().string()), code);
  sync_folder(folder.path);
  return true;
}

std::optional<std::string> claimed_by(const AttemptFolder& folder) {
  const auto text = read_if_there(folder.claim(), kMostClaimBytes);
  if (!text) return std::nullopt;
  return std::string(trim(*text));
}

bool supervisor_lives(const AttemptFolder& folder, const std::string& identity) {
  const auto own = split(process_identity(::getpid()), ' ');
  const auto other = split(identity, ' ');
  const bool is_known = other.size() == 4 && own[0] == other[0] && own[1] == other[1];
  return is_known ? !process_ended(identity) : is_folder_locked(folder.run());
}

void write_early_end(const AttemptFolder& folder, const std::string& failure) {
  const ordered_json json{{"failure", failure}, {"ended", utc_timestamp()}};
  write_file_atomically(folder.failure(),
                        json.dump(-1, ' ', false, ordered_json::error_handler_t::replace), 0600);
}

std::optional<EarlyEnd> read_early_end(const AttemptFolder& folder) {
  const auto text = read_if_there(folder.failure(), kMostRequestBytes);
  if (!text) return std::nullopt;
  const auto json = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return EarlyEnd{.failure = text_in(json, "failure"), .ended = text_in(json, "ended")};
}

}  // namespace cohort::engine
