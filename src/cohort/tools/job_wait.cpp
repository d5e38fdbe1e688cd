#include "cohort/tools/job_wait.h"

#include <thread>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/tools/job_log_screen.h"
#include "cohort/tools/job_table.h"
#include "cohort/tools/platform_client.h"
#include "cohort/tools/question.h"

namespace cohort::tools {
namespace {

constexpr std::chrono::milliseconds kWaitLook{200};

// A line for every change, until the job has ended.
void wait_by_events(sdk::ServiceClient& client, const std::string& id) {
  std::string told;
  client.follow_events(id, 0, [&](const sdk::JobEvent&) {
    const sdk::Job job = client.job(id);
    if (job.has_ended()) return false;
    const std::string text = ending_text(job);
    if (text != std::exchange(told, text)) log::info("{}", text);
    return true;
  });
}

int tell_end(const sdk::Job& job) {
  if (job.state == "succeeded")
    log::info("{}", ending_text(job));
  else
    log::error("{}", ending_text(job));
  return job.shell_exit_code();
}

// After Ctrl-C. True: go on waiting.
bool wants_more(const sdk::ServiceAddress& service, const std::string& id) {
  const char answer =
      can_ask()
          ? ask_person(fmt::format("\nJob {}: (s)top it, (w)ait on, or (l)eave it running?", id),
                       "swl")
          : 'l';
  if (answer == 's') sdk::ServiceClient(service).stop(id);
  if (answer == 'l')
    log::info("job {} goes on; stop it with: cohort stop {}; watch it with: cohort logs -f {}", id,
              id, id);
  return answer != 'l';
}

}  // namespace

void tell_waiting(sdk::ServiceClient& client, const std::string& name) {
  std::string told;
  while (true) {
    try {
      const sdk::Job job = client.job(name);
      if (job.state != "queued" && job.state != "starting") return;
      if (!job.reason.empty() && job.reason != std::exchange(told, job.reason))
        log::info("{}", ending_text(job));
    } catch (const PeerError&) {
      if (!client.address().is_own) throw;
      sdk::find_or_start_service();
    }
    std::this_thread::sleep_for(kWaitLook);  // Ctrl-C ends the next question
  }
}

int wait_for_job(const sdk::ServiceAddress& service, const std::string& job, bool follow) {
  const std::string id = escape_controls(job);
  JobLogScreen screen(/*show_tasks=*/true);
  sdk::LogQuery query;
  while (true) {
    try {
      Interruption interruption;
      sdk::ServiceClient client(service, interruption.cancel());
      tell_waiting(client, job);
      if (follow)
        screen.follow(client, job, query);
      else
        wait_by_events(client, job);
      return tell_end(client.job(job));
    } catch (const HttpCancelled&) {
      if (!wants_more(service, id)) return kLeft;
      query.after = screen.cursor();
    }
  }
}

}  // namespace cohort::tools
