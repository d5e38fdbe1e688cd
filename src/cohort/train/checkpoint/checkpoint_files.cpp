#include "cohort/train/checkpoint/checkpoint_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <regex>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/train/checkpoint/durable_file.h"

namespace cohort::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kBest = "best.json";
constexpr std::uint64_t kMaxJsonBytes = 256 << 20;

enum class Kind { other, json, tensors, temporary };

struct FileName {
  Kind kind = Kind::other;
  std::int64_t step = 0;
};

FileName parse_name(const std::string& name) {
  static const std::regex pattern(R"(step-(\d{8,18})(-\d{1,6})?\.(json|safetensors)(\.tmp)?)");
  if (name == std::string(kBest) + std::string(kTemporarySuffix)) return {Kind::temporary};
  std::smatch match;
  if (!std::regex_match(name, match, pattern)) return {};
  const Kind kind = match[4].matched     ? Kind::temporary
                    : match[3] != "json" ? Kind::tensors
                    : match[2].matched   ? Kind::other
                                         : Kind::json;
  return {kind, std::stoll(match[1])};
}

std::vector<std::pair<fs::path, FileName>> files_of(const fs::path& folder) {
  std::vector<std::pair<fs::path, FileName>> files;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    files.emplace_back(entries->path(), parse_name(entries->path().filename().string()));
  if (error)
    throw SystemError(fmt::format("cannot read the folder '{}'", folder.string()), error.value());
  return files;
}

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  if (!fs::remove(path, error) && error)
    throw SystemError(fmt::format("cannot remove '{}'", path.string()), error.value());
}

// The tensors' file that a checkpoint's JSON names; empty when the JSON is damaged.
std::string tensors_named_by(const fs::path& path) {
  try {
    return read_sealed(path).at("tensors").at("file").get<std::string>();
  } catch (const InvalidInput&) {
  } catch (const json::exception&) {
  }
  return {};
}

}  // namespace

std::string checkpoint_stem(std::int64_t step) { return fmt::format("step-{:08}", step); }

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / (checkpoint_stem(step) + ".json");
}

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& folder) {
  std::vector<ListedCheckpoint> listed;
  for (const auto& [path, name] : files_of(folder))
    if (name.kind == Kind::json) listed.push_back({name.step, path});
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return listed;
}

fs::path free_tensors_path(const fs::path& folder, std::int64_t step) {
  const std::string stem = checkpoint_stem(step);
  fs::path path = folder / (stem + ".safetensors");
  for (int i = 2; file_exists(path); ++i) path = folder / fmt::format("{}-{}.safetensors", stem, i);
  return path;
}

std::string seal(const json& content) {
  const json whole = {{"checkpoint", content}, {"sha256", to_hex(sha256(content.dump()))}};
  return whole.dump(2) + "\n";
}

json unseal(const std::string& text, const fs::path& path) {
  auto refuse = [&](const std::string& reason) {
    throw InvalidInput(fmt::format("'{}' is not a usable checkpoint: {}", path.string(), reason));
  };
  json whole;
  try {
    whole = json::parse(text);
  } catch (const json::exception& error) {
    refuse(fmt::format("it is not JSON ({})", error.what()));
  }
  auto content = whole.find("checkpoint");
  auto digest = whole.find("sha256");
  if (content == whole.end() || !content->is_object() || digest == whole.end() ||
      !digest->is_string())
    refuse("it was not written by Cohort");
  if (to_hex(sha256(content->dump())) != digest->get_ref<const std::string&>())
    refuse("its contents do not have the checksum that they were saved with");
  return *content;
}

json read_sealed(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw SystemError(fmt::format("cannot read '{}'", path.string()), errno);
  if (!S_ISREG(status.st_mode))
    throw InvalidInput(fmt::format("'{}' is not a file", path.string()));
  if (static_cast<std::uint64_t>(status.st_size) > kMaxJsonBytes)
    throw InvalidInput(fmt::format("'{}' is not a usable checkpoint: it has {} bytes of JSON",
                                   path.string(), status.st_size));
  return unseal(read_file(path), path);
}

void mark_best(const fs::path& folder, const BestCheckpoint& best) {
  write_durably(folder / kBest, seal({{"step", best.step},
                                      {"file", checkpoint_path("", best.step).string()},
                                      {"metric", best.metric},
                                      {"value", best.value}}));
}

std::optional<BestCheckpoint> find_best(const fs::path& folder) {
  const fs::path path = folder / kBest;
  if (!file_exists(path)) return std::nullopt;
  const json content = read_sealed(path);
  try {
    return BestCheckpoint{content.at("step").get<std::int64_t>(),
                          content.at("metric").get<std::string>(),
                          content.at("value").get<double>()};
  } catch (const json::exception& error) {
    throw InvalidInput(fmt::format("'{}' is incomplete ({})", path.string(), error.what()));
  }
}

void remove_replaced(const fs::path& folder, std::int64_t step, const fs::path& used) {
  for (const auto& [path, name] : files_of(folder))
    if (name.kind == Kind::tensors && name.step == step && path.filename() != used.filename())
      remove_file(path);
}

std::vector<fs::path> remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> removed;
  auto remove = [&](const fs::path& path) {
    remove_file(path);
    removed.push_back(path);
  };
  for (const auto& [path, name] : files_of(folder)) {
    if (name.kind == Kind::temporary) remove(path);
    if (name.kind != Kind::tensors) continue;
    const fs::path owner = checkpoint_path(folder, name.step);
    if (!file_exists(owner)) {
      remove(path);
    } else {
      const auto named = tensors_named_by(owner);
      if (!named.empty() && named != path.filename()) remove(path);
    }
  }
  return removed;
}

void remove_old(const fs::path& folder, std::int64_t current, std::size_t keep) {
  std::optional<BestCheckpoint> best;
  try {
    best = find_best(folder);
  } catch (const InvalidInput& error) {
    log::warning("no old checkpoint is removed, as the best is not known: {}", error.what());
    return;
  }
  std::size_t kept = 0;
  for (const auto& [step, path] : list_checkpoints(folder)) {
    if (step > current || ++kept <= keep || (best && best->step == step)) continue;
    remove_file(path);
    remove_replaced(folder, step, {});
  }
}

}  // namespace cohort::train
