#include "cohort/service/api/sse_stream.h"

#include <algorithm>

namespace cohort::service {

BodyStream::Then SseStream::next(std::string& bytes) {
  touch_();
  const std::size_t before = bytes.size();
  if (last_sent_ == Clock::time_point{}) bytes += "retry: 1000\n\n";
  Then then = fill(bytes);
  const auto now = Clock::now();
  if (bytes.size() == before && now - last_sent_ >= kQuiet) bytes += ":\n\n";
  if (bytes.size() != before) last_sent_ = now;
  return then;
}

void add_event(std::string& bytes, std::string_view name, std::string_view id,
               std::string_view json) {
  bytes.append("event: ").append(name);
  if (!id.empty()) bytes.append("\nid: ").append(id);
  bytes.append("\ndata: ").append(json).append("\n\n");
}

HttpResponse sse_response(std::unique_ptr<SseStream> stream) {
  HttpResponse response;
  response.type = "text/event-stream";
  response.headers.emplace_back("Cache-Control", "no-store");
  response.stream = std::move(stream);
  return response;
}

}  // namespace cohort::service
