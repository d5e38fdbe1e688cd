#include "cohort/engine/kubernetes/attempt_follower.h"

#include <algorithm>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/base/log/log.h"
#include "cohort/engine/attempt_folder.h"
#include "cohort/engine/kubernetes/status_file.h"
#include "cohort/jobspec/source/source_package.h"

namespace cohort::engine::kubernetes {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kCallTime{5};
constexpr std::chrono::seconds kWatchHeadTime{10};
constexpr std::chrono::milliseconds kTick{250};      // how soon a stop is seen
constexpr std::chrono::seconds kJobTime{5};          // the Job is looked at, whatever a watch says
constexpr std::chrono::milliseconds kStopTime{500};  // the same of one that is to end
constexpr std::chrono::milliseconds kRetry{1000};
constexpr std::chrono::seconds kSameAccess{60};  // without an answer; then it is read anew
constexpr int kGone = 410;
constexpr int kTimeOverCode = 124;  // as of timeout(1)

Deadline call_deadline() { return Deadline::after(kCallTime); }

std::vector<PodStatus> pods_of(const json& list) {
  std::vector<PodStatus> pods;
  if (list.contains("items"))
    for (const json& pod : list.at("items")) pods.push_back(read_pod(pod));
  // Of one index the earlier pod has the earlier log.
  std::stable_sort(pods.begin(), pods.end(),
                   [](const auto& a, const auto& b) { return a.created < b.created; });
  return pods;
}

std::string version_of(const json& object) {
  return object.value("metadata", json::object()).value("resourceVersion", "");
}

}  // namespace

AttemptFollower::AttemptFollower(KubernetesSetup setup, fs::path folder, UniqueFd lock)
    : setup_(std::move(setup)), folder_(std::move(folder)), lock_(std::move(lock)) {
  status_ = read_status(folder_).value_or(AttemptStatus{.state = AttemptState::starting});
  thread_ = std::thread([this] { run(); });
}

AttemptFollower::~AttemptFollower() {
  cancel_.cancel();
  thread_.join();
}

AttemptStatus AttemptFollower::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

// Called by its own thread alone. Written down first: the end of the logs is told by the file.
void AttemptFollower::change(const std::function<void(AttemptStatus&)>& change) {
  AttemptStatus next = status();
  change(next);
  if (std::error_code code; fs::is_directory(folder_, code)) write_status(folder_, next);
  const std::lock_guard lock(mutex_);
  status_ = std::move(next);
}

// Without its folder an attempt has no owner.
bool AttemptFollower::stop_asked() const {
  std::error_code code;
  return fs::exists(AttemptFolder{folder_}.stop_mark(), code) || !fs::is_directory(folder_, code);
}

void AttemptFollower::run() {
  while (!cancel_.is_cancelled()) {
    std::string trouble;
    try {
      follow();
      break;
    } catch (const HttpCancelled&) {
      return;
    } catch (const InvalidInput& refusal) {
      change([&](AttemptStatus& status) {
        status.state = stop_asked() ? AttemptState::stopped : AttemptState::failed;
        status.failure = refusal.what();
        status.ended = utc_timestamp();
      });
      break;
    } catch (const Error& error) {  // the API server cannot be asked
      trouble = error.what();
    } catch (const std::exception& error) {
      trouble = fmt::format("an answer of the API server was not understood: {}", error.what());
    }
    try {
      wait_after(trouble);
    } catch (const HttpCancelled&) {
      return;
    } catch (const std::exception& error) {  // the folder is gone
      log::warning("{}: {}", folder_.string(), error.what());
      break;
    }
  }
  done_.store(true);
}

// From whatever was done before to the end of the attempt.
void AttemptFollower::follow() {
  const AttemptRequest request = read_request({folder_});
  max_run_ = request.job.spec.max_run;
  const AttemptName name = attempt_name(request);
  const KubeClient client(setup_.access(), &cancel_, [this](const std::string& what) {
    change([&](AttemptStatus& status) { status.waiting = what; });
  });
  PodOptions options = setup_.pods;
  if (options.name_space.empty()) options.name_space = client.access().name_space;
  ManifestInput input{.request = request,
                      .asked = setup_.read_words(request.job),
                      .name = name.name,
                      .secret = name.secret};
  const AttemptObjects objects(client, options.name_space, name.name);
  const fs::path requested = folder_ / "requested", created = folder_ / "created";
  std::string version;  // of before its first pod, if it is made here
  if (!fs::exists(created)) {
    if (stop_asked()) {  // a request whose answer did not come may have made it
      if (fs::exists(requested)) objects.remove(call_deadline());
      throw InvalidInput("stopped before it started");
    }
    if (!request.source.empty()) input.source = jobspec::pack_source(request.source).archive;
    const Manifest manifest = make_manifest(input, options);
    version = version_of(objects.pods(call_deadline()));
    write_file_atomically(requested, utc_timestamp() + "\n", 0600);
    const std::string uid = objects.create(manifest, call_deadline());
    write_file_atomically(created, uid + "\n", 0600);  // from here on it is never made again
  }
  AttemptPods pods(client.access(), objects, lay_out_pods(input.asked, name.name, name.name),
                   AttemptFolder{folder_}.run());
  until_end(objects, pods, version);
}

void AttemptFollower::wait_after(const std::string& trouble) {
  log::warning("{}: {}", folder_.string(), trouble);
  change([&](AttemptStatus& status) { status.waiting = trouble; });
  pause(&cancel_, kRetry);
}

// All that happened to pods since `version` is seen; "": since now. It stays known while the API
// server cannot be asked, which may not say it again, since pods go. Throws PeerError when that
// lasts: the access may be another by then.
void AttemptFollower::until_end(const AttemptObjects& objects, AttemptPods& pods,
                                std::string version) {
  bool was_looked_at = false;
  answered_ = Deadline::Clock::now();
  while (true) {
    std::string trouble;
    try {
      if (version.empty()) {
        const json list = objects.pods(call_deadline());
        pods.keep_only(pods_of(list));
        version = version_of(list);
        was_looked_at = false;
      }
      if (!was_looked_at && look(objects, pods, version)) return;
      was_looked_at = true;
      if (watch_once(objects, pods, version)) return;
      continue;
    } catch (const PeerError& error) {
      trouble = error.what();
    } catch (const TimeoutError& error) {
      trouble = error.what();
    } catch (const ProtocolError& error) {
      trouble = error.what();
    }
    if (Deadline::Clock::now() - answered_ > kSameAccess) throw PeerError(trouble);
    wait_after(trouble);
  }
}

// One watch, from `version` on, which goes along; "": a new list is needed. True when the attempt
// has ended.
bool AttemptFollower::watch_once(const AttemptObjects& objects, AttemptPods& pods,
                                 std::string& version) {
  HttpReplyReader watch = objects.watch_pods(version, Deadline::after(kWatchHeadTime));
  if (watch.status() != 200) {
    if (watch.status() == kGone) {
      version.clear();
      return false;
    }
    throw PeerError(fmt::format("the API server refuses to watch pods ({})", watch.status()));
  }
  std::string text;
  auto looked = Deadline::Clock::now();
  while (true) {
    bool changed = false;
    try {
      const std::string piece = watch.read(Deadline::after(kTick));
      if (piece.empty()) return false;  // it has had its time
      text += piece;
    } catch (const TimeoutError&) {
    } catch (const PeerError&) {
      return false;  // it broke off: what came is known, the rest comes again
    }
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (!take_event(text.substr(begin, end - begin), pods, version)) return false;
      changed = true;
    }
    text.erase(0, begin);
    const bool stop = stop_asked() && !stop_sent_;
    const auto patience = stop_sent_ ? kStopTime : std::chrono::milliseconds(kJobTime);
    if (!changed && !stop && Deadline::Clock::now() - looked < patience) continue;
    if (look(objects, pods, version)) return true;
    looked = Deadline::Clock::now();
  }
}

// False when the watch is of no use any more.
bool AttemptFollower::take_event(const std::string& line, AttemptPods& pods,
                                 std::string& version) const {
  const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object()) {
    version.clear();
    return false;
  }
  const std::string type = event.value("type", "");
  const json object = event.value("object", json::object());
  if (type == "ERROR") {  // 410 in most cases
    version.clear();
    return false;
  }
  if (const std::string next = version_of(object); !next.empty()) version = next;
  if (type == "ADDED" || type == "MODIFIED") pods.set(read_pod(object));
  if (type == "DELETED") {
    const PodStatus last = read_pod(object);
    pods.set(last);
    pods.gone(last.uid);
  }
  return true;
}

// Asks for the Job, and says what is known. True when the attempt has ended.
bool AttemptFollower::look(const AttemptObjects& objects, AttemptPods& pods, std::string& version) {
  if (stop_asked() && !stop_sent_) {
    objects.remove(call_deadline());
    stop_sent_ = true;
  }
  const auto job = objects.job(call_deadline());
  answered_ = Deadline::Clock::now();
  AttemptStatus next = status();
  next.tasks = pods.tasks();
  next.workers = pods.running();
  next.state = stop_sent_           ? AttemptState::stopping
               : pods.any_started() ? AttemptState::running
                                    : AttemptState::starting;
  if (next.started.empty() && pods.any_started()) next.started = utc_timestamp();
  next.waiting = pods.waits_for();
  if (!job) {
    next.state = stop_sent_ ? AttemptState::stopped : AttemptState::lost;
    if (!stop_sent_) next.failure = "its Job is gone: it was deleted, or ended a day ago";
    finish(objects, pods, version, next);
    return true;
  }
  const JobConditions conditions = read_job(*job);
  if (conditions.end == JobEnd::none) {
    if (conditions.is_suspended) next.waiting = "the Job is suspended: its queue has no place yet";
    if (next.waiting.empty() && next.tasks.empty()) next.waiting = objects.trouble(call_deadline());
    change([&](AttemptStatus& status) { status = next; });
    return false;
  }
  if (conditions.end == JobEnd::complete) {
    next.state = stop_sent_ ? AttemptState::stopped : AttemptState::succeeded;
    if (!stop_sent_) next.exit_code = 0;
  } else {
    next.state = stop_sent_ ? AttemptState::stopped : AttemptState::failed;
    next.failure = fmt::format("{}: {}", conditions.reason, conditions.message);
    if (conditions.reason == "DeadlineExceeded") {
      next.failure = fmt::format("max_run of {} s is over", max_run_.count());
      next.exit_code = kTimeOverCode;
    }
  }
  const json spec = job->value("spec", json::object());
  finish(objects, pods, version, next, spec.value("completions", 0));
  return true;
}

// When a Job fails, its controller removes the pods that have not failed yet, as far as it knows:
// the one that failed first may be among them, and a list says nothing of a pod that is gone. A
// watch does: how it ended comes with its removal. `count`: the pods of the Job.
void AttemptFollower::see_ends(const AttemptObjects& objects, AttemptPods& pods,
                               std::string& version, int count) const {
  const Deadline deadline = call_deadline();
  std::string text;
  try {
    HttpReplyReader watch = objects.watch_pods(version, deadline);
    if (watch.status() != 200) return;
    while (!pods.all_seen_to_end(count)) {
      const std::string piece = watch.read(deadline);
      if (piece.empty()) return;
      text += piece;
      std::size_t begin = 0;
      for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        if (!take_event(text.substr(begin, end - begin), pods, version)) return;
      text.erase(0, begin);
    }
  } catch (const TimeoutError&) {  // what is not known then stays unknown
  } catch (const PeerError&) {
  }
}

void AttemptFollower::finish(const AttemptObjects& objects, AttemptPods& pods, std::string& version,
                             AttemptStatus status, int count) {
  if (status.state == AttemptState::failed && !version.empty() && !pods.all_seen_to_end(count))
    see_ends(objects, pods, version, count);
  pods.keep_only(pods_of(objects.pods(call_deadline())));
  pods.all_have_ended();
  while (!pods.logs_done()) {
    if (cancel_.is_cancelled()) throw HttpCancelled("the service ends");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  status.tasks = pods.tasks();
  status.workers.reset();
  status.waiting.clear();
  status.ended = utc_timestamp();
  if (status.state == AttemptState::failed && !status.failure.starts_with("max_run"))
    if (const auto cause = pods.root_cause()) {
      status.failure = cause->text;
      status.exit_code = cause->exit_code;
    }
  change([&](AttemptStatus& known) { known = status; });
  pods.forget_positions();
}

}  // namespace cohort::engine::kubernetes
