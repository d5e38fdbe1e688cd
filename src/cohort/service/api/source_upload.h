#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cohort/base/net/http_message.h"
#include "cohort/service/store/background.h"
#include "cohort/service/store/run_store.h"

// Packed sources (ROOT/sources/SHA256.tar.gz): each is there as a whole and verified, or not at all.
namespace cohort::service {

constexpr std::uint64_t kMostSourceBytes = std::uint64_t{512} << 20;

// Takes the bytes in, to a temporary file beside the others, and renames it once its SHA-256 is the
// one that was said and all is on disk: 201, 200 when it was there already, 400 when it differs.
// Throws ApiError (400) unless `sha256` is 64 lower-case hexadecimal digits.
// The waiting for the disk is done in the background; `wake`: the request's.
std::unique_ptr<BodySink> source_upload(const RunFolders& folders, const std::string& sha256,
                                        Background& background, std::function<void()> wake);

// Removes what uploads that were broken off have left; before the first one only.
void remove_partial_uploads(const RunFolders& folders);

void require_sha256(const std::string& text);  // throws ApiError (400)

}  // namespace cohort::service
