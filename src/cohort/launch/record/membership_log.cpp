#include "cohort/launch/record/membership_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/launch/job/choice.h"

namespace cohort::launch {

using membership::Coordinator;
using membership::MembershipEvent;
using nlohmann::ordered_json;

namespace {

constexpr Choice<MembershipEvent::Kind> kEventKinds[] = {
    {"proposed", MembershipEvent::Kind::proposed},
    {"installed", MembershipEvent::Kind::installed},
    {"resumed", MembershipEvent::Kind::resumed},
    {"evicted", MembershipEvent::Kind::evicted},
    {"dismissed", MembershipEvent::Kind::dismissed},
    {"refused", MembershipEvent::Kind::refused},
    {"waiting", MembershipEvent::Kind::waiting},
    {"over", MembershipEvent::Kind::over},
    {"failed", MembershipEvent::Kind::failed}};
constexpr Choice<Coordinator::Phase> kPhases[] = {{"gathering", Coordinator::Phase::gathering},
                                                  {"changing", Coordinator::Phase::changing},
                                                  {"training", Coordinator::Phase::training},
                                                  {"over", Coordinator::Phase::over},
                                                  {"failed", Coordinator::Phase::failed}};

}  // namespace

std::string_view to_string(Coordinator::Phase phase) { return word_for(kPhases, phase); }

std::string to_json_line(const MembershipEvent& event, const std::string& time, double seconds) {
  ordered_json json;
  json["time"] = time;
  json["seconds"] = seconds;
  json["event"] = word_for(kEventKinds, event.kind);
  json["view"] = event.view.number;
  json["members"] = ordered_json::array();
  for (const auto& member : event.view.members) json["members"].push_back(member.info.id());
  json["reason"] = event.text;
  if (!event.member.empty()) json["member"] = event.member;
  if (event.kind == MembershipEvent::Kind::resumed) {
    json["step"] = event.step;
    json["stood_still_ms"] = std::chrono::duration<double, std::milli>(event.duration).count();
    json["redone"] = event.redone;
  }
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

MembershipLog::MembershipLog(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666)),
      begin_(std::chrono::steady_clock::now()) {
  if (!file_) throw SystemError(fmt::format("cannot write '{}'", path_.string()), errno);
}

void MembershipLog::write(const MembershipEvent& event) {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  const std::string line = to_json_line(event, utc_timestamp(), seconds.count()) + "\n";
  if (::write(file_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
    failed_ = false;
    return;
  }
  if (!failed_)
    log::warning("cannot write '{}': {}; the job goes on", path_.string(),
                 std::generic_category().message(errno));
  failed_ = true;
}

}  // namespace cohort::launch
