#include "cohort/engine/kubernetes/pod_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kHeadTime{10};    // for a stream to begin
constexpr std::chrono::seconds kSilentTime{60};  // a stream that says nothing is opened anew
constexpr std::chrono::milliseconds kLogPause{200};

fs::path position_of(const fs::path& file) { return file.string() + ".position"; }

std::string_view without_end(std::string_view lines) {
  while (lines.ends_with('\n')) lines.remove_suffix(1);
  return lines;
}

}  // namespace

std::optional<std::string> missing_behind(std::string_view file_end, std::string_view last_lines) {
  file_end = without_end(file_end);
  last_lines = without_end(last_lines);
  for (std::size_t count = std::min(file_end.size(), last_lines.size()); count > 0; --count) {
    const bool ends_a_line = count == last_lines.size() || last_lines[count] == '\n';
    if (ends_a_line && file_end.ends_with(last_lines.substr(0, count)))
      return std::string(last_lines.substr(std::min(count + 1, last_lines.size())));
  }
  return std::nullopt;
}

PodLog::PodLog(const ClusterAccess& access, std::string path, fs::path file)
    : client_(access, &cancel_), path_(std::move(path)), file_(std::move(file)) {
  output_.reset(::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!output_) throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
  if (fs::exists(position_of(file_))) {
    const json known =
        json::parse(read_file(position_of(file_)), nullptr, /*allow_exceptions=*/false);
    if (known.is_object() && known.contains("bytes") && known.contains("position")) {
      bytes_ = known.at("bytes");
      position_ = LogPosition::from_json(known.at("position").dump());
      done_.store(known.value("is_whole", false));
    }
  }
  // What a killed process wrote without noting it comes again.
  if (::ftruncate(output_.get(), static_cast<off_t>(bytes_)) != 0)
    throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
  if (!done_.load()) thread_ = std::thread([this] { run(); });
}

PodLog::~PodLog() {
  cancel_.cancel();
  if (thread_.joinable()) thread_.join();
}

void PodLog::pod_has_ended(const std::string& last_lines) {
  const std::lock_guard lock(mutex_);
  if (last_lines_.empty()) last_lines_ = last_lines;
  ended_.store(true);
}

void PodLog::forget_position(const fs::path& file) {
  std::error_code code;
  if (!fs::remove(position_of(file), code) && code)
    log::warning("'{}' cannot be removed: {}", position_of(file).string(), code.message());
}

void PodLog::run() {
  try {
    copy();
  } catch (const HttpCancelled&) {  // it goes on in another process
  } catch (const std::exception& error) {
    log::warning("the log {} is not whole: {}", file_.string(), error.what());
  }
  done_.store(true);
}

void PodLog::copy() {
  std::optional<Deadline> patience;
  while (true) {
    const bool ended = ended_.load();  // before the stream begins
    if (ended && !patience) patience = Deadline::after(kPatience);
    const Read read = read_stream();
    const bool is_last = ended && (read != Read::broken || patience->expired());
    if (is_last) add_missing(read);
    flush(is_last);
    if (is_last) return;
    pause(&cancel_, kLogPause);
  }
}

// Only whole lines are taken of a stream that broke off; of a log that has ended also the last.
PodLog::Read PodLog::read_stream() {
  std::string target = path_ + "&follow=true&timestamps=true";
  if (const std::string since = position_.since(); !since.empty())
    target += "&sinceTime=" + percent_encoded(since);
  const bool ended = ended_.load();
  std::optional<HttpReplyReader> reader;
  std::string piece, rest;
  // What the network does: no connection, or one that broke off, is tried again. False: so it is.
  const auto can = [](const auto& network) {
    try {
      network();
      return true;
    } catch (const HttpCancelled&) {
      throw;
    } catch (const Error&) {
      return false;
    }
  };
  if (!can([&] { reader.emplace(client_.open(target, Deadline::after(kHeadTime))); }))
    return Read::broken;
  if (reader->status() == 404) return Read::absent;
  if (reader->status() != 200) return Read::broken;  // it waits for its image, or for a token
  position_.begin_stream();
  reached_end_ = false;
  last_line_.clear();
  while (true) {
    if (!can([&] { piece = reader->read(Deadline::after(kSilentTime)); })) return Read::broken;
    if (piece.empty()) break;
    rest += piece;
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
      if (const auto line = position_.take(std::string_view(rest).substr(begin, end - begin)))
        append(*line, true);
    rest.erase(0, begin);
    flush();
  }
  reached_end_ = true;
  last_line_ = rest;
  if (ended && !rest.empty())
    if (const auto line = position_.take(rest)) append(*line, false);
  return Read::whole;
}

// At the end of the log, whose newest read was `last_read`.
void PodLog::add_missing(Read last_read) {
  if (last_read == Read::whole) return;
  if (reached_end_ && !last_line_.empty())
    if (const auto line = position_.take(last_line_)) append(*line, true);
  flush();
  const std::string last_lines = [&] {
    const std::lock_guard lock(mutex_);
    return last_lines_;
  }();
  const auto missing = missing_behind(file_end(last_lines.size() + 1), last_lines);
  const bool is_gap = last_lines.empty() ? !reached_end_ : !missing;
  if (is_gap)
    append(last_read == Read::absent
               ? "cohort: the pod was removed before the rest of this log was read"
               : "cohort: the rest of this log could not be read",
           true);
  const std::string_view rest = missing ? *missing : without_end(last_lines);
  if (!rest.empty()) append(rest, true);
}

std::string PodLog::file_end(std::size_t most_bytes) const {
  std::string text(std::min<std::uint64_t>(bytes_, most_bytes), '\0');
  const ssize_t count =
      ::pread(output_.get(), text.data(), text.size(), static_cast<off_t>(bytes_ - text.size()));
  if (count < 0) throw SystemError(fmt::format("cannot read '{}'", file_.string()), errno);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

void PodLog::append(std::string_view line, bool with_end) {
  taken_ += line;
  if (with_end) taken_ += '\n';
}

void PodLog::flush(bool is_whole) {
  std::string_view left = taken_;
  if (left.empty() && !is_whole) return;
  while (!left.empty()) {
    const ssize_t count = ::pwrite(output_.get(), left.data(), left.size(),
                                   static_cast<off_t>(bytes_ + taken_.size() - left.size()));
    if (count < 0 && errno != EINTR)
      throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  bytes_ += taken_.size();
  taken_.clear();
  const json known{
      {"bytes", bytes_}, {"position", json::parse(position_.to_json())}, {"is_whole", is_whole}};
  write_file_atomically(position_of(file_), known.dump());
}

}  // namespace cohort::engine::kubernetes
