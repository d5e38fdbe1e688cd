#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cohort/base/net/http_message.h"

namespace cohort::service {

// The page's own files: HTML, script, style. They hold no data, and need no token.
//
//   a file of the page by its path (/assets/app-3f9a.js)   that file; in /assets for ever the same
//   / and what the page shows as an address (/jobs/ID)     index.html, when HTML is accepted
//
// Every answer has page_headers(). Confined to one thread.
class PageFiles {
 public:
  // `folder`: served from there, read anew each time, for those who work on the page; "": what the
  // program holds.
  explicit PageFiles(std::filesystem::path folder = {});

  // Whether a request is for the page, not for the API: GET or HEAD outside of /v1.
  static bool is_for_page(const HttpRequest& request);

  // Throws ApiError (404).
  HttpResponse answer(const HttpRequest& request) const;

 private:
  struct File {
    std::string bytes;
    bool is_gzip = false;
  };
  std::optional<File> find(const std::string& path, bool takes_gzip) const;

  std::filesystem::path folder_;
};

// What browsers are to hold to on the page: only its own script and style, no other page around it,
// no address of it told to others.
HttpHeaders page_headers();

}  // namespace cohort::service
