#include "cohort/capi/world/timeline.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::capi {

namespace {

std::string activity(Kind kind) {
  std::string name;
  for (const char letter : to_string(kind))
    name.push_back(letter == ' ' ? '_' : static_cast<char>(std::toupper(letter)));
  return name;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Timeline::~Timeline() { stop(); }

void Timeline::start(const std::string& path, int rank, bool mark_rounds) {
  const std::lock_guard lock(mutex_);
  if (file_ != nullptr)
    throw InvalidInput("a timeline is being written already", {.advice = "Stop it first."});
  file_ = std::fopen(path.c_str(), "we");
  if (file_ == nullptr) throw SystemError("open the timeline " + path, errno);
  rank_ = rank;
  mark_rounds_ = mark_rounds;
  zero_ = Request::Clock::now();
  tracks_.clear();
  write(
      fmt::format("[\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":"
                  "\"rank {}\"}}}}",
                  rank_, rank_));
  started_ = true;
}

void Timeline::stop() {
  const std::lock_guard lock(mutex_);
  started_ = false;
  if (file_ == nullptr) return;
  std::fputs("\n]\n", file_);
  std::fclose(file_);
  file_ = nullptr;
}

void Timeline::record(const Request& request, Request::Clock::time_point ready) {
  if (!started_) return;
  const auto now = Request::Clock::now();
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  const std::string kind = activity(request.signature->kind);
  const int track = track_of(request.signature->name);
  const auto event = [&](const std::string& name, Request::Clock::time_point from,
                         Request::Clock::time_point to) {
    write(fmt::format(
        ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}}}", name,
        rank_, track, microseconds(from), microseconds(to) - microseconds(from)));
  };
  event("NEGOTIATE_" + kind, request.submitted, ready);
  event(kind, ready, now);
  std::fflush(file_);
}

void Timeline::mark_round() {
  if (!started_) return;
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr || !mark_rounds_) return;
  write(
      fmt::format(",\n{{\"name\":\"CYCLE_START\",\"ph\":\"i\",\"s\":\"p\",\"pid\":{},\"tid\":0,"
                  "\"ts\":{}}}",
                  rank_, microseconds(Request::Clock::now())));
  std::fflush(file_);
}

void Timeline::write(const std::string& event) { std::fputs(event.c_str(), file_); }

// Requests that were submitted before the start begin at it.
std::int64_t Timeline::microseconds(Request::Clock::time_point time) const {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::max(time, zero_) - zero_)
      .count();
}

int Timeline::track_of(const std::string& name) {
  const auto [place, is_new] = tracks_.emplace(name, static_cast<int>(tracks_.size()) + 1);
  if (is_new)
    write(
        fmt::format(",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":"
                    "{{\"name\":{}}}}}",
                    rank_, place->second, quoted(name)));
  return place->second;
}

}  // namespace cohort::capi
