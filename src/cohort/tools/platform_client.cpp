#include "cohort/tools/platform_client.h"

#include <csignal>

#include "cohort/base/error.h"

namespace cohort::tools {
namespace {

HttpCancel* interrupted = nullptr;  // of the one Interruption, for the signal handler
struct sigaction old_interrupt, old_terminate;

void interrupt(int) {
  if (interrupted) interrupted->cancel();
}

// The service writes its run store when it first runs.
bool has_run_store() {
  std::error_code ignored;
  return std::filesystem::exists(sdk::default_root() / "service.sqlite", ignored);
}

}  // namespace

std::optional<sdk::ServiceClient> service_with_jobs(const HttpCancel* cancel) {
  if (auto found = sdk::find_service()) return sdk::ServiceClient(*found, cancel);
  if (!has_run_store()) return std::nullopt;
  return sdk::ServiceClient(sdk::find_or_start_service(), cancel);
}

std::optional<sdk::ServiceClient> running_service() {
  if (auto found = sdk::find_service()) return sdk::ServiceClient(*found);
  return std::nullopt;
}

sdk::ServiceClient service_with_job(const std::string& job, const HttpCancel* cancel) {
  if (auto client = service_with_jobs(cancel)) return std::move(*client);
  throw InvalidInput(fmt::format("no job '{}': {}", job, no_jobs_text()),
                     {.advice = "Submit one with: cohort submit -- program args"});
}

std::string job_name(sdk::ServiceClient& client, const std::string& named) {
  if (named != "latest") return named;
  const auto page = client.jobs({.limit = 1});
  return page.jobs.empty() ? named : page.jobs.front().id;
}

std::string no_jobs_text() {
  return fmt::format("no jobs yet in '{}'", sdk::default_root().string());
}

Interruption::Interruption() {
  interrupted = &cancel_;
  struct sigaction action {};
  action.sa_handler = interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &old_interrupt);
  ::sigaction(SIGTERM, &action, &old_terminate);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &old_interrupt, nullptr);
  ::sigaction(SIGTERM, &old_terminate, nullptr);
  interrupted = nullptr;
}

}  // namespace cohort::tools
