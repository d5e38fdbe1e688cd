#include "cohort/base/net/sse.h"

#include <algorithm>
#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/http_client.h"
#include "cohort/base/text.h"

namespace cohort {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

void SseReader::feed(std::string_view bytes) {
  input_.erase(0, used_);
  used_ = 0;
  input_ += bytes;
}

std::optional<SseEvent> SseReader::next() {
  if (!is_begun_ && (input_.size() >= kByteOrderMark.size() ||
                     !kByteOrderMark.starts_with(std::string_view(input_)))) {
    if (input_.starts_with(kByteOrderMark)) used_ = kByteOrderMark.size();
    is_begun_ = true;
  }
  while (is_begun_ && used_ < input_.size()) {
    if (std::exchange(skips_newline_, false) && input_[used_] == '\n') {
      ++used_;
      continue;
    }
    const std::size_t end = input_.find_first_of("\r\n", used_);
    if (event_.data.size() + std::min(end, input_.size()) - used_ > most_)
      throw ProtocolError(fmt::format("an event of more than {} bytes", most_));
    if (end == input_.npos) break;
    const std::string_view line = std::string_view(input_).substr(used_, end - used_);
    skips_newline_ = input_[end] == '\r';
    used_ = end + 1;
    if (!line.empty()) {
      take_line(line);
      continue;
    }
    last_id_ = event_.id;
    SseEvent whole{.id = last_id_};
    std::swap(whole, event_);
    if (std::exchange(has_data_, false)) return whole;
  }
  return std::nullopt;
}

void SseReader::take_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);  // empty: a comment
  std::string_view value = colon == line.npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  } else if (name == "event") {
    event_.name = value.empty() ? "message" : value;
  } else if (name == "id" && value.find('\0') == value.npos) {
    event_.id = value;
  } else if (name == "retry") {
    constexpr std::uint64_t kMost = 24 * 3600 * 1000;
    if (const auto time = parse_unsigned(value); time && *time <= kMost)
      retry_ = std::chrono::milliseconds(*time);
  }
}

std::optional<SseEvent> next_event(HttpReplyReader& reply, SseReader& reader, Deadline deadline) {
  while (true) {
    if (auto event = reader.next()) return event;
    const std::string bytes = reply.read(deadline);
    if (bytes.empty()) return std::nullopt;
    reader.feed(bytes);
  }
}

std::string to_sse(std::string_view name, std::string_view id, std::string_view data) {
  std::string text = fmt::format("event: {}\n", name);
  if (!id.empty()) text += fmt::format("id: {}\n", id);
  while (true) {
    const std::size_t end = data.find_first_of("\r\n");
    text += fmt::format("data: {}\n", data.substr(0, end));
    if (end == data.npos) return text + "\n";
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
}

}  // namespace cohort
