#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cohort/base/net/http_message.h"

// The cookie that a browser shows its session by. Pure.
//
// Browsers send a cookie of a host to all of its ports, so its name has the port: several services of
// one machine do not end each other's sessions. Under TLS it is "__Host-...", which only this host
// itself can have set.
namespace cohort::service {

// "cohort_session_8080" for the Host of the request.
std::string cookie_name(const HttpRequest& request);

// The session's secret that a request shows; "": none.
std::string shown_session(const HttpRequest& request);

// What Set-Cookie is given: no script reads it, no other site's page makes a browser send it.
// `secret` "": the cookie ends at once.
std::string session_cookie(const HttpRequest& request, const std::string& secret,
                           std::chrono::seconds age);

}  // namespace cohort::service
