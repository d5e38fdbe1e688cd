#include "cohort/launch/remote/remote_task.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "cohort/base/crypto/hmac.h"
#include "cohort/base/error.h"
#include "cohort/base/version.h"

namespace cohort::launch {
namespace {

using nlohmann::json;

constexpr const char* kSameVersion = "Install the same version on every host.";

}  // namespace

std::string to_line(const RemoteTask& task) {
  json object = {{"cohort", kVersion},
                 {"name", task.name},
                 {"command", task.command},
                 {"environment", json::object()},
                 {"removed", task.removed},
                 {"tasks_on_host", task.tasks_on_host},
                 {"folder", task.folder.string()},
                 {"grace_ms", task.grace.count()},
                 {"last_word_mark", task.last_word_mark}};
  for (const auto& [name, value] : task.environment) object["environment"][name] = value;
  if (task.secret) object["secret"] = task.secret->to_text();
  try {
    return object.dump() + "\n";
  } catch (const json::type_error&) {
    throw InvalidInput(
        fmt::format("the command or a variable of {} holds bytes that are not UTF-8", task.name),
        {.advice = "Only text can be sent to a task on another host: rename the file."});
  }
}

RemoteTask parse_remote_task(std::string_view line) {
  json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("cohort"))
    throw InvalidInput("standard input holds no task of a Cohort launcher",
                       {.advice = "`cohort run` starts this command by itself on other hosts."});
  if (object["cohort"] != kVersion)
    throw InvalidInput(
        fmt::format("the launcher is Cohort {}, this host has {}",
                    object["cohort"].is_string() ? object["cohort"].get<std::string>()
                                                 : std::string("of an unknown version"),
                    kVersion),
        {.advice = kSameVersion});
  try {
    RemoteTask task{.name = object.at("name").get<std::string>(),
                    .command = object.at("command").get<std::vector<std::string>>(),
                    .removed = object.at("removed").get<std::vector<std::string>>(),
                    .tasks_on_host = object.at("tasks_on_host").get<int>(),
                    .folder = object.at("folder").get<std::string>(),
                    .grace = std::chrono::milliseconds(object.at("grace_ms").get<std::int64_t>())};
    task.last_word_mark = object.at("last_word_mark").get<std::string>();
    for (const auto& [name, value] : object.at("environment").items())
      task.environment[name] = value.get<std::string>();
    if (object.contains("secret"))
      task.secret = Secret::from_text(object["secret"].get_ref<const std::string&>(),
                                      "what the launcher sent");
    if (task.command.empty()) throw InvalidInput("the launcher's task has no program");
    task.tasks_on_host = std::max(1, task.tasks_on_host);
    return task;
  } catch (const json::exception& error) {
    throw InvalidInput(fmt::format("the launcher's task is not understood: {}", error.what()),
                       {.advice = kSameVersion});
  }
}

RemoteLink::RemoteLink(UniqueFd input, std::string task_line, std::chrono::milliseconds beat)
    : beat_(beat), input_(std::move(input)), pending_(std::move(task_line)) {
  ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  loop_.post([this] {
    write_pending();
    schedule_beat();
  });
  thread_ = std::thread([this] {
    sigset_t all;  // the launcher's signals are its main thread's; a broken pipe is an error code
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    loop_.run();
  });
}

RemoteLink::~RemoteLink() {
  loop_.stop();
  thread_.join();
  hang_up();
}

void RemoteLink::signal(int number) {
  loop_.post([this, number] { send(fmt::format("signal {}\n", number)); });
}

void RemoteLink::schedule_beat() {
  loop_.call_after(beat_, [this] {
    if (pending_.empty()) send("\n");  // what waits already is a sign of life when it arrives
    if (input_) schedule_beat();
  });
}

void RemoteLink::send(std::string_view bytes) {
  pending_ += bytes;
  write_pending();
}

void RemoteLink::write_pending() {
  while (input_ && !pending_.empty()) {
    ssize_t count = ::write(input_.get(), pending_.data(), pending_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      if (!std::exchange(waiting_, true))
        loop_.add(input_.get(), EPOLLOUT, [this](std::uint32_t) { write_pending(); });
      return;
    }
    if (count < 0) return hang_up();
    wipe(pending_.data(), static_cast<std::size_t>(count));  // the secret may have been in it
    pending_.erase(0, static_cast<std::size_t>(count));
  }
  if (input_ && std::exchange(waiting_, false)) loop_.remove(input_.get());
}

void RemoteLink::hang_up() {
  if (std::exchange(waiting_, false)) loop_.remove(input_.get());
  wipe(pending_.data(), pending_.size());
  pending_.clear();
  input_.reset();
}

}  // namespace cohort::launch
