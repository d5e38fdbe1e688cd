#include "cohort/service/page/page_files.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "cohort/base/files/files.h"
#include "cohort/base/files/scratch_folder_test.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/page/page_bundle.h"

namespace cohort::service {
namespace {

namespace fs = std::filesystem;

HttpRequest get(const std::string& target, HttpHeaders headers = {{"accept", "text/html"}}) {
  return {.method = "GET", .target = target, .headers = std::move(headers)};
}

// The body, or the status that refuses it.
std::string body_of(const PageFiles& page, const HttpRequest& request) {
  try {
    return page.answer(request).body;
  } catch (const ApiError& error) {
    return std::to_string(error.status());
  }
}

std::string header_of(const HttpResponse& response, const char* name) {
  const std::string* value = find_header(response.headers, name);
  return value ? *value : "";
}

std::string unpacked(const std::string& gzip) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  std::string text(std::size_t{16} << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(PageFiles, OfTheProgramAreServedAsTheyAreOrCompressed) {
  const PageFiles page;
  ASSERT_FALSE(page_bundle().empty());
  for (const BundledFile& file : page_bundle()) {
    EXPECT_EQ(body_of(page, get(std::string(file.path))), file.bytes) << file.path;
    const HttpResponse packed =
        page.answer(get(std::string(file.path), {{"accept-encoding", "br, gzip;q=0.8"}}));
    if (header_of(packed, "content-encoding") == "gzip") {
      EXPECT_LT(packed.body.size(), file.bytes.size());
      EXPECT_EQ(unpacked(packed.body), file.bytes) << file.path;
    } else {
      EXPECT_GE(file.gzip.size(), file.bytes.size()) << file.path;
    }
    const HttpResponse plain =
        page.answer(get(std::string(file.path), {{"accept-encoding", "gzip;q=0"}}));
    EXPECT_EQ(header_of(plain, "content-encoding"), "");
  }
}

TEST(PageFiles, IndexAnswersForWhatThePageShowsAsAnAddress) {
  ScratchFolder folder;
  write_file_atomically(folder.path() / "index.html", "index", 0644);
  fs::create_directory(folder.path() / "assets");
  write_file_atomically(folder.path() / "assets/app-1.js", "script", 0644);
  const PageFiles page(folder.path());
  EXPECT_EQ(body_of(page, get("/", {})), "index");
  EXPECT_EQ(body_of(page, get("/jobs/2026/logs?task=worker:0")), "index");
  EXPECT_EQ(body_of(page, get("/login")), "index");
  EXPECT_EQ(body_of(page, get("/jobs/2026", {{"accept", "application/json"}})), "404");
  EXPECT_EQ(body_of(page, get("/assets/app-1.js")), "script");
  EXPECT_EQ(body_of(page, get("/assets/app-2.js")), "404");
  EXPECT_EQ(body_of(page, get("/a%zz")), "400");

  const HttpResponse index = page.answer(get("/")), script = page.answer(get("/assets/app-1.js"));
  EXPECT_EQ(index.type, "text/html; charset=utf-8");
  EXPECT_EQ(script.type, "text/javascript; charset=utf-8");
  EXPECT_EQ(header_of(index, "cache-control"), "no-cache");
  EXPECT_EQ(header_of(script, "cache-control"), "public, max-age=31536000, immutable");
  for (const HttpResponse* response : {&index, &script})
    for (const auto& [name, value] : page_headers())
      EXPECT_EQ(header_of(*response, name.c_str()), value) << name;
}

TEST(PageFiles, NothingLeadsOutOfTheFolder) {
  ScratchFolder folder;
  write_file_atomically(folder.path() / "secret", "secret", 0644);
  fs::create_directories(folder.path() / "page/assets");
  write_file_atomically(folder.path() / "page/index.html", "index", 0644);
  fs::create_symlink(folder.path() / "secret", folder.path() / "page/assets/link");
  fs::create_symlink(folder.path(), folder.path() / "page/assets/out");
  const PageFiles page(folder.path() / "page");
  for (const char* target :
       {"/assets/../../secret", "/assets/%2e%2e/%2e%2e/secret", "/assets/..%2f..%2fsecret",
        "/../secret", "/assets/link", "/assets/out/secret", "//secret", "/assets//", "/assets/.",
        "/assets/%2fetc/passwd", "/assets/x%00"}) {
    const std::string body = body_of(page, get(target));
    EXPECT_TRUE(body == "404" || body == "400" || body == "index") << target << ": " << body;
    EXPECT_THAT(body_of(page, get(target, {})), testing::AnyOf("404", "400")) << target;
  }
}

TEST(PageFiles, AreWhatIsReadOutsideOfTheApi) {
  const auto is_for_page = [](const char* method, const char* target) {
    return PageFiles::is_for_page({.method = method, .target = target});
  };
  EXPECT_TRUE(is_for_page("GET", "/"));
  EXPECT_TRUE(is_for_page("HEAD", "/assets/x"));
  EXPECT_TRUE(is_for_page("GET", "/v1x"));
  EXPECT_FALSE(is_for_page("GET", "/v1"));
  EXPECT_FALSE(is_for_page("GET", "/v1?x=1"));
  EXPECT_FALSE(is_for_page("GET", "/v1/jobs"));
  EXPECT_FALSE(is_for_page("POST", "/"));
  EXPECT_FALSE(is_for_page("GET", "http://host/"));
}

}  // namespace
}  // namespace cohort::service
