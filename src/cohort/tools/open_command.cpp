#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cohort/base/log/log.h"
#include "cohort/tools/commands.h"
#include "cohort/tools/page_link.h"
#include "cohort/tools/platform_client.h"

namespace cohort::tools {
namespace {

constexpr const char* kOpenExamples = R"(
Examples:
  cohort open
      the page with all jobs; a service is started when none runs
  cohort open latest
      the newest job
  cohort open mnist --print
      prints the link only, for a browser elsewhere

The link works once and for a minute; the browser that uses it is signed in as you are, for 12 hours. A
service without --listen listens on 127.0.0.1 from then on: from another machine, reach it with
ssh -L PORT:127.0.0.1:PORT HOST. The exit code is 0, or 2 when there is no such job.
)";

struct OpenArguments {
  std::string job;
  bool print_only = false;
};

int open_page(const OpenArguments& arguments) {
  sdk::ServiceClient client(sdk::find_or_start_service());
  std::string path = "/";
  if (!arguments.job.empty()) path += "jobs/" + client.job(job_name(client, arguments.job)).id;
  const std::string link = page_link(client, path);
  fmt::print("{}\n", link);
  std::fflush(stdout);
  if (!arguments.print_only && open_in_browser(link)) log::info("opened in the browser");
  return 0;
}

}  // namespace

Command open_command() {
  auto declare = [](CLI::App& app) -> Action {
    auto arguments = std::make_shared<OpenArguments>();
    app.description("Shows the page of the service, or one job of it, in a browser.");
    app.footer(kOpenExamples);
    app.add_option("JOB", arguments->job, "An id, the beginning of one, a name, or latest");
    app.add_flag("--print", arguments->print_only, "Only prints the link");
    return [arguments](const Words&, const Words&) { return open_page(*arguments); };
  };
  return {"open", "show the page, or a job, in a browser", "[JOB] [options]", declare};
}

}  // namespace cohort::tools
