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
#include "cohort/service/api/answer_later.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/store/source_store.h"

namespace cohort::service {
namespace {

constexpr std::string_view kPartial = ".upload-";

HttpResponse stored(int status, const std::string& sha256, std::uint64_t bytes) {
  return json_response(status,
                       nlohmann::ordered_json({{"sha256", sha256}, {"bytes", bytes}}).dump());
}

// A file beside its place until it is whole and on disk; gone with the object before that.
class PartialSource {
 public:
  explicit PartialSource(const std::filesystem::path& folder) {
    std::string name = (folder / kPartial).string() + "XXXXXX";
    file_ = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file_) throw SystemError("cannot store a source", errno);
    path_ = name;
  }
  ~PartialSource() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  PartialSource(const PartialSource&) = delete;
  PartialSource& operator=(const PartialSource&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw SystemError("cannot store a source", errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  // Waits for the disk.
  void name_it(const std::filesystem::path& name) {
    if (::fdatasync(file_.get()) != 0 || ::rename(path_.c_str(), name.c_str()) != 0)
      throw SystemError("cannot store a source", errno);
    path_.clear();
    const UniqueFd folder(::open(name.parent_path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()) != 0) throw SystemError("cannot store a source", errno);
  }

 private:
  std::string path_;
  UniqueFd file_;
};

class SourceUpload : public BodySink {
 public:
  SourceUpload(const RunFolders& folders, std::string sha256, Background& background,
               std::function<void()> wake)
      : sha256_(std::move(sha256)),
        place_(source_file(folders, sha256_)),
        background_(background),
        wake_(std::move(wake)) {
    if (!use_source(folders, sha256_))
      partial_ = std::make_shared<PartialSource>(folders.sources());
  }

  std::uint64_t limit() const override { return kMostSourceBytes; }

  std::optional<HttpResponse> write(std::string_view piece) override {
    if (!partial_) return std::nullopt;
    try {
      hash_.update(piece);
      bytes_ += piece.size();
      partial_->write(piece);
    } catch (const std::exception&) {
      // Said once all has come: a client that is still sending would not hear it.
      refusal_ = response_of(std::current_exception());
      partial_.reset();
    }
    return std::nullopt;
  }

  HttpResponse finish() override {
    if (refusal_) return *std::move(refusal_);
    try {
      if (!partial_) return stored(200, sha256_, std::filesystem::file_size(place_));
      const std::string found = to_hex(hash_.finish());
      if (found != sha256_)
        throw ApiError(400, fmt::format("the bytes have the SHA-256 {}, not {}", found, sha256_),
                       {.advice = "Send the packed source again."});
    } catch (const std::exception&) {
      partial_.reset();
      return response_of(std::current_exception());
    }
    return answer_later(
        background_, wake_,
        [partial = std::move(partial_), place = place_] {
          partial->name_it(place);
          return true;
        },
        [sha256 = sha256_, bytes = bytes_](bool) { return stored(201, sha256, bytes); });
  }

 private:
  std::string sha256_;
  std::filesystem::path place_;
  Background& background_;
  std::function<void()> wake_;
  std::shared_ptr<PartialSource> partial_;  // none: it was there already, or could not be stored
  std::optional<HttpResponse> refusal_;
  Sha256 hash_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

void require_sha256(const std::string& text) {
  const bool fits = text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
  if (!fits)
    throw ApiError(400, "a source is named by 64 lower-case hexadecimal digits",
                   {.advice = "They are the SHA-256 of the packed source."});
}

std::unique_ptr<BodySink> source_upload(const RunFolders& folders, const std::string& sha256,
                                        Background& background, std::function<void()> wake) {
  require_sha256(sha256);
  make_own_folder(folders.sources());
  return std::make_unique<SourceUpload>(folders, sha256, background, std::move(wake));
}

void remove_partial_uploads(const RunFolders& folders) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folders.sources(), ignored))
    if (entry.path().filename().string().compare(0, kPartial.size(), kPartial) == 0)
      std::filesystem::remove(entry.path(), ignored);
}

}  // namespace cohort::service
