#pragma once

#include <chrono>
#include <cstddef>
#include <string>

// What an HTTP server and its connections speak of. Values.
namespace cohort {

struct HttpRequest {
  std::string method;  // "GET"
  std::string target;  // as sent: "/scope/key?x=1"
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string type = "application/octet-stream";
};

// What unauthenticated clients can make a server spend, whatever they send.
struct HttpLimits {
  std::size_t head = 8 * 1024;                 // request line and headers
  std::size_t body = std::size_t{1} << 20;     // of one request
  std::size_t pending = std::size_t{8} << 20;  // requests not complete and answers not taken, all
  std::size_t connections = 256;               // past it the oldest goes
  std::chrono::milliseconds time{5000};        // of one connection, from accept to the last byte
};

}  // namespace cohort
