#include "cohort/service/api/source_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "cohort/base/crypto/sha256_stream.h"
#include "cohort/base/files/owned_files.h"
#include "cohort/base/unique_fd.h"
#include "cohort/service/api/api_error.h"

namespace cohort::service {
namespace {

constexpr std::string_view kPartial = ".upload-";
constexpr std::uint64_t kSyncEvery = std::uint64_t{16} << 20;  // no long wait at the end

HttpResponse stored(int status, const std::string& sha256, std::uint64_t bytes) {
  return json_response(status,
                       nlohmann::ordered_json({{"sha256", sha256}, {"bytes", bytes}}).dump());
}

class SourceUpload : public BodySink {
 public:
  SourceUpload(const RunFolders& folders, std::string sha256)
      : sha256_(std::move(sha256)), final_(source_file(folders, sha256_)) {
    if (std::filesystem::exists(final_)) return;  // the bytes are read and thrown away
    std::string name = (folders.sources() / kPartial).string() + "XXXXXX";
    file_ = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file_) throw SystemError("cannot store a source", errno);
    partial_ = name;
  }

  ~SourceUpload() override { drop(); }

  std::uint64_t limit() const override { return kMostSourceBytes; }

  std::optional<HttpResponse> write(std::string_view piece) override {
    if (!file_) return std::nullopt;
    try {
      store(piece);
    } catch (const std::exception&) {
      // Said once all has come: a client that is still sending would not hear it.
      refusal_ = response_of(std::current_exception());
      drop();
    }
    return std::nullopt;
  }

  HttpResponse finish() override {
    if (refusal_) return *std::move(refusal_);
    try {
      if (!file_) return stored(200, sha256_, std::filesystem::file_size(final_));
      const std::string found = to_hex(hash_.finish());
      if (found != sha256_)
        throw ApiError(400, fmt::format("the bytes have the SHA-256 {}, not {}", found, sha256_),
                       {.advice = "Send the packed source again."});
      sync();
      if (::rename(partial_.c_str(), final_.c_str()) != 0)
        throw SystemError("cannot store a source", errno);
      partial_.clear();
      const UniqueFd folder(::open(final_.parent_path().c_str(), O_RDONLY | O_CLOEXEC));
      if (!folder || ::fsync(folder.get()) != 0) throw SystemError("cannot store a source", errno);
      return stored(201, sha256_, bytes_);
    } catch (const std::exception&) {
      return response_of(std::current_exception());
    }
  }

 private:
  void drop() {
    if (!partial_.empty()) ::unlink(partial_.c_str());
    partial_.clear();
    file_.reset();
  }

  void store(std::string_view piece) {
    hash_.update(piece);
    bytes_ += piece.size();
    for (std::string_view rest = piece; !rest.empty();) {
      const ssize_t count = ::write(file_.get(), rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw SystemError("cannot store a source", errno);
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    if (bytes_ - synced_ >= kSyncEvery) sync();
  }

  void sync() {
    if (::fdatasync(file_.get()) != 0) throw SystemError("cannot store a source", errno);
    synced_ = bytes_;
  }

  std::string sha256_;
  std::filesystem::path final_;
  std::string partial_;
  UniqueFd file_;  // none: it was there already, or could not be stored
  std::optional<HttpResponse> refusal_;
  Sha256 hash_;
  std::uint64_t bytes_ = 0;
  std::uint64_t synced_ = 0;
};

}  // namespace

void require_sha256(const std::string& text) {
  const bool fits = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
  if (!fits)
    throw ApiError(400, "a source is named by 64 lower-case hexadecimal digits",
                   {.advice = "They are the SHA-256 of the packed source."});
}

std::filesystem::path source_file(const RunFolders& folders, const std::string& sha256) {
  return folders.sources() / (sha256 + ".tar.gz");
}

bool has_source(const RunFolders& folders, const std::string& sha256) {
  require_sha256(sha256);
  return std::filesystem::exists(source_file(folders, sha256));
}

std::unique_ptr<BodySink> source_upload(const RunFolders& folders, const std::string& sha256) {
  require_sha256(sha256);
  make_own_folder(folders.sources());
  return std::make_unique<SourceUpload>(folders, sha256);
}

void remove_partial_uploads(const RunFolders& folders) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folders.sources(), ignored))
    if (entry.path().filename().string().compare(0, kPartial.size(), kPartial) == 0)
      std::filesystem::remove(entry.path(), ignored);
}

}  // namespace cohort::service
