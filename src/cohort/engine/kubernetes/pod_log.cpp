#include "cohort/engine/kubernetes/pod_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kHeadTime{10};    // for a stream to begin
constexpr std::chrono::seconds kSilentTime{60};  // a stream that says nothing is opened anew
constexpr std::chrono::milliseconds kLogPause{200};

fs::path position_of(const fs::path& file) { return file.string() + ".position"; }

}  // namespace

PodLog::PodLog(const ClusterAccess& access, std::string path, fs::path file)
    : client_(access, &cancel_), path_(std::move(path)), file_(std::move(file)) {
  output_.reset(::open(file_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!output_) throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
  if (fs::exists(position_of(file_))) {
    const std::string text = read_file(position_of(file_));
    bytes_ = std::strtoull(text.c_str(), nullptr, 10);
    position_ = LogPosition::from_json(text.substr(std::min(text.find(' '), text.size())));
  }
  // What a killed process wrote without noting it comes again.
  if (::ftruncate(output_.get(), static_cast<off_t>(bytes_)) != 0)
    throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
  thread_ = std::thread([this] { run(); });
}

PodLog::~PodLog() {
  cancel_.cancel();
  thread_.join();
}

void PodLog::run() {
  std::optional<Deadline> patience;
  try {
    while (true) {
      const bool ended = ended_.load();  // before the stream begins
      if (ended && !patience) patience = Deadline::after(kPatience);
      const Read read = read_stream();
      flush();
      if (ended && read != Read::broken) break;
      if (patience && patience->expired()) {
        append("cohort: the rest of this log could not be read", true);
        flush();
        break;
      }
      pause(&cancel_, kLogPause);
    }
    fs::remove(position_of(file_));
  } catch (const HttpCancelled&) {  // it goes on in another process
  } catch (const std::exception& error) {
    log::warning("the log {} is not whole: {}", file_.string(), error.what());
  }
  done_.store(true);
}

// Only whole lines are taken of a stream that broke off; of a log that has ended also the last.
PodLog::Read PodLog::read_stream() {
  std::string target = path_ + "&follow=true&timestamps=true";
  if (const std::string since = position_.since(); !since.empty())
    target += "&sinceTime=" + percent_encoded(since);
  const bool ended = ended_.load();
  std::string rest;
  try {
    HttpReplyReader reader = client_.open(target, Deadline::after(kHeadTime));
    if (reader.status() == 404) return Read::absent;
    if (reader.status() != 200) return Read::broken;  // it waits for its image, or for a token
    position_.begin_stream();
    for (std::string piece; !(piece = reader.read(Deadline::after(kSilentTime))).empty();) {
      rest += piece;
      std::size_t begin = 0;
      for (std::size_t end; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1)
        if (const auto line = position_.take(std::string_view(rest).substr(begin, end - begin)))
          append(*line, true);
      rest.erase(0, begin);
      flush();
    }
    if (ended && !rest.empty())
      if (const auto line = position_.take(rest)) append(*line, false);
    return Read::whole;
  } catch (const HttpCancelled&) {
    throw;
  } catch (const SystemError&) {
    throw;
  } catch (const Error&) {  // no connection, or one that broke off
    return Read::broken;
  }
}

void PodLog::append(std::string_view line, bool with_end) {
  taken_ += line;
  if (with_end) taken_ += '\n';
}

void PodLog::flush() {
  std::string_view left = taken_;
  if (left.empty()) return;
  while (!left.empty()) {
    const ssize_t count = ::pwrite(output_.get(), left.data(), left.size(),
                                   static_cast<off_t>(bytes_ + taken_.size() - left.size()));
    if (count < 0 && errno != EINTR)
      throw SystemError(fmt::format("cannot write '{}'", file_.string()), errno);
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  bytes_ += taken_.size();
  taken_.clear();
  write_file_atomically(position_of(file_), fmt::format("{} {}", bytes_, position_.to_json()));
}

}  // namespace cohort::engine::kubernetes
