#include "cohort/report/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"

namespace cohort::report {
namespace {

constexpr int kFirstTrack = 1 << 24;  // no thread of Linux has such an id

int this_thread() {
  thread_local const int id = static_cast<int>(::gettid());
  return id;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds, as the format wants them, with the nanoseconds behind the point.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

// JSON has no word for a number that is not finite.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string metadata(const char* what, int rank, int thread, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     rank, thread, quoted(name));
}

}  // namespace

TraceRecorder::TraceRecorder(TraceOptions options)
    : options_(std::move(options)),
      clock_offset_us_(options_.clock_offset_us),
      events_(new Event[options_.max_events]()) {}

const char* TraceRecorder::intern(const std::string& name) {
  std::lock_guard lock(mutex_);
  return names_.insert(name).first->c_str();
}

void TraceRecorder::name_thread(std::string name) {
  std::lock_guard lock(mutex_);
  thread_names_[this_thread()] = std::move(name);
}

int TraceRecorder::track(const std::string& name) {
  std::lock_guard lock(mutex_);
  int free = kFirstTrack;
  for (const auto& [thread, thread_name] : thread_names_) {
    if (thread < kFirstTrack) continue;
    if (thread_name == name) return thread;
    free = thread + 1;
  }
  thread_names_[free] = name;
  return free;
}

void TraceRecorder::record(char phase, const char* name, const char* category, std::int64_t begin,
                           std::int64_t duration, TraceArgument argument,
                           std::optional<int> track) {
  std::uint64_t place = next_.fetch_add(1, std::memory_order_relaxed);
  if (place >= options_.max_events) return;
  Event& event = events_[place];
  event.name = name;
  event.category = category;
  event.argument_name = argument.name;
  event.value = argument.value;
  event.begin = begin;
  event.duration = duration;
  event.thread = track ? *track : this_thread();
  event.phase.store(phase, std::memory_order_release);
}

void TraceRecorder::complete(const char* name, const char* category, std::int64_t begin,
                             std::int64_t end, TraceArgument argument, std::optional<int> track) {
  record('X', name, category, begin, std::max<std::int64_t>(0, end - begin), argument, track);
}

void TraceRecorder::instant(const char* name, const char* category, TraceArgument argument) {
  record('i', name, category, trace_now(), 0, argument);
}

void TraceRecorder::counter(const char* name, double value) {
  record('C', name, "counter", trace_now(), 0, {"value", value});
}

std::uint64_t TraceRecorder::dropped() const {
  std::uint64_t seen = next_.load(std::memory_order_relaxed);
  return seen > options_.max_events ? seen - options_.max_events : 0;
}

std::string TraceRecorder::to_json() const {
  int rank = options_.rank;
  std::string name =
      options_.process_name.empty() ? fmt::format("rank {}", rank) : options_.process_name;
  std::string text = fmt::format(
      R"({{"displayTimeUnit":"ms","otherData":{{"rank":{},"clock_offset_us":{},"dropped_events":{}}},)"
      "\n\"traceEvents\":[\n{},\n"
      R"({{"ph":"M","name":"process_sort_index","pid":{},"tid":0,"args":{{"sort_index":{}}}}})",
      rank, clock_offset_us_.load(), dropped(), metadata("process_name", rank, 0, name), rank,
      rank);
  {
    std::lock_guard lock(mutex_);
    for (const auto& [thread, thread_name] : thread_names_)
      text += ",\n" + metadata("thread_name", rank, thread, thread_name);
  }
  // Few names, many events: each is quoted once.
  std::unordered_map<const char*, std::string> quoted_names;
  auto name_of = [&](const char* name) -> const std::string& {
    auto [entry, is_new] = quoted_names.try_emplace(name);
    if (is_new) entry->second = quoted(name);
    return entry->second;
  };
  std::uint64_t count = std::min<std::uint64_t>(next_.load(), options_.max_events);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Event& event = events_[i];
    char phase = event.phase.load(std::memory_order_acquire);
    if (phase == 0) continue;  // its thread is still writing it
    text += fmt::format(R"(,{}{{"ph":"{}","name":{},"cat":{},"pid":{},"tid":{},"ts":{})", '\n',
                        phase, name_of(event.name), name_of(event.category), rank, event.thread,
                        microseconds(event.begin));
    if (phase == 'X') text += fmt::format(R"(,"dur":{})", microseconds(event.duration));
    if (phase == 'i') text += R"(,"s":"t")";
    if (event.argument_name)
      text +=
          fmt::format(R"(,"args":{{{}:{}}})", name_of(event.argument_name), number(event.value));
    text += '}';
  }
  return text + "\n]}\n";
}

std::filesystem::path TraceRecorder::write(const std::filesystem::path& folder) const {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    throw SystemError(fmt::format("cannot make the folder '{}'", folder.string()), code.value());
  auto path = folder / fmt::format("trace-rank{}.json", options_.rank);
  write_file_atomically(path, to_json());
  return path;
}

}  // namespace cohort::report
