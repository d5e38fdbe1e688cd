#include "cohort/service/page/page_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/confined_files.h"
#include "cohort/service/http/url.h"
#include "cohort/service/page/page_bundle.h"

namespace cohort::service {
namespace {

constexpr std::string_view kIndex = "/index.html";
constexpr std::string_view kAssets = "/assets/";
constexpr std::size_t kMostPageFile = std::size_t{16} << 20;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".ico", "image/x-icon"},
    {".json", "application/json"},
    {".map", "application/json"},
    {".woff2", "font/woff2"},
}};

std::string type_of_file(std::string_view path) {
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return std::string(type);
  return "application/octet-stream";
}

bool accepts_words(const HttpRequest& request, std::string_view header, std::string_view word) {
  const std::string* value = find_header(request.headers, header);
  return value && value->find(word) != std::string::npos;
}

// "gzip" and "gzip;q=0.5", not "gzip;q=0".
bool takes_gzip(const HttpRequest& request) {
  const std::string* value = find_header(request.headers, "accept-encoding");
  if (!value) return false;
  for (const std::string& one : split(*value, ',')) {
    const auto parts = split(one, ';');
    if (parts.empty() || trim(parts.front()) != "gzip") continue;
    return parts.size() < 2 || trim(parts[1]).find_first_of("123456789") != std::string_view::npos;
  }
  return false;
}

std::optional<std::string> read_beneath(const std::filesystem::path& folder,
                                        const std::string& path) {
  const UniqueFd below = open_folder(folder);
  if (!below) return std::nullopt;
  const UniqueFd file = open_beneath(below.get(), path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string bytes;
  std::array<char, 64 * 1024> buffer;
  while (bytes.size() < kMostPageFile) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return bytes;
}

}  // namespace

HttpHeaders page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
           "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

PageFiles::PageFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

bool PageFiles::is_for_page(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") return false;
  const std::string_view path =
      std::string_view(request.target).substr(0, request.target.find('?'));
  return path.starts_with('/') && path != "/v1" && !path.starts_with("/v1/");
}

std::optional<PageFiles::File> PageFiles::find(const std::string& path, bool takes_gzip) const {
  if (!folder_.empty()) {
    auto bytes = read_beneath(folder_, path.substr(1));
    if (!bytes) return std::nullopt;
    return File{.bytes = *std::move(bytes)};
  }
  const auto& bundle = page_bundle();
  const auto found = std::find_if(bundle.begin(), bundle.end(),
                                  [&](const BundledFile& file) { return file.path == path; });
  if (found == bundle.end()) return std::nullopt;
  const bool is_gzip = takes_gzip && found->gzip.size() < found->bytes.size();
  return File{.bytes = std::string(is_gzip ? found->gzip : found->bytes), .is_gzip = is_gzip};
}

HttpResponse PageFiles::answer(const HttpRequest& request) const {
  const auto path =
      percent_decoded(std::string_view(request.target).substr(0, request.target.find('?')));
  if (!path)
    throw ApiError(400, "the path is not encoded well", {.advice = "Write each % as %25."});
  const bool gzip = takes_gzip(request);
  std::string name = *path;
  auto file = name == "/" ? std::nullopt : find(name, gzip);
  if (!file && !name.starts_with(kAssets) &&
      (name == "/" || accepts_words(request, "accept", "text/html"))) {
    name = kIndex;
    file = find(name, gzip);
  }
  if (!file)
    throw ApiError(404, "the page has no such file",
                   {.advice = "The API is below /v1: docs/api.md."});
  HttpResponse response{.body = std::move(file->bytes), .type = type_of_file(name)};
  response.headers = page_headers();
  // Names in /assets have a digest of their content.
  response.headers.emplace_back("Cache-Control", name.starts_with(kAssets)
                                                     ? "public, max-age=31536000, immutable"
                                                     : "no-cache");
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (file->is_gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  return response;
}

}  // namespace cohort::service
