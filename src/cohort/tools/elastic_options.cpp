#include "cohort/tools/elastic_options.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "cohort/base/error.h"
#include "cohort/base/text.h"

namespace cohort::tools {
namespace {

constexpr double kLongestTime = 7 * 24 * 3600;  // seconds

int parse_count(std::string_view text, const std::string& whole) {
  const bool negative = text.starts_with('-');
  const auto number = parse_unsigned(text.substr(negative ? 1 : 0));
  if (!number || *number > std::numeric_limits<int>::max())
    throw InvalidInput(fmt::format("--workers '{}' is not a number, or too large a one", whole),
                       {.advice = "Give -n 4, or -n 2:8 with --elastic."});
  return negative ? -static_cast<int>(*number) : static_cast<int>(*number);
}

std::chrono::milliseconds to_time(double seconds, const char* option) {
  if (!(seconds > 0 && seconds <= kLongestTime))
    throw InvalidInput(fmt::format("{} must be more than 0, at most {} seconds, got {}", option,
                                   kLongestTime, seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void refuse_without_elastic(bool given, const std::string& option) {
  if (given)
    throw InvalidInput(fmt::format("{} is for elastic jobs only", option),
                       {.advice = "Add --elastic, or leave it out."});
}

}  // namespace

void declare_elastic_options(CLI::App& app, launch::JobOptions& job, ElasticArguments& arguments) {
  app.add_option_function<std::string>(
         "-n,--workers",
         [&](const std::string& text) {
           const size_t colon = text.find(':');
           arguments.least.reset();
           if (colon != std::string::npos)
             arguments.least = parse_count(std::string_view(text).substr(0, colon), text);
           job.workers = parse_count(
               std::string_view(text).substr(colon == std::string::npos ? 0 : colon + 1), text);
         },
         "Tasks that train; with --elastic the least and the most of them [1]")
      ->type_name("N or LEAST:MOST")
      ->group("Tasks");
  app.add_flag("--elastic", arguments.elastic,
               "Workers may die, come back, come and go while the job trains")
      ->group("Elastic");
  app.add_option("--lease", arguments.lease,
                 "Seconds without a sign of life after which a worker is shut out [2]")
      ->type_name("S")
      ->group("Elastic");
  app.add_option("--elastic-timeout", arguments.timeout,
                 "Seconds to wait for the least number of workers [600]")
      ->type_name("S")
      ->group("Elastic");
  app.add_option("--host-discovery-script", arguments.discovery_script,
                 "Prints the hosts to use, one HOST or HOST:SLOTS a line; asked every second")
      ->type_name("FILE")
      ->group("Elastic");
  app.add_option("--max-restarts", arguments.max_restarts,
                 "Start the whole group again after a failure, at most N times [0]; with --elastic "
                 "each worker alone [10]")
      ->type_name("N")
      ->group("Ending");
}

void apply(const ElasticArguments& arguments, launch::JobOptions& job) {
  if (!arguments.elastic) {
    if (arguments.least)
      throw InvalidInput(
          fmt::format("-n {}:{} is a range, which only elastic jobs have", *arguments.least,
                      job.workers),
          {.advice = fmt::format("Add --elastic, or give one number, as in -n {}.", job.workers)});
    refuse_without_elastic(arguments.lease.has_value(), "--lease");
    refuse_without_elastic(arguments.timeout.has_value(), "--elastic-timeout");
    refuse_without_elastic(arguments.discovery_script.has_value(), "--host-discovery-script");
    job.max_restarts = arguments.max_restarts.value_or(job.max_restarts);
    return;
  }
  launch::ElasticOptions& elastic = job.elastic.emplace();
  elastic.least = arguments.least.value_or(1);
  elastic.most = job.workers;
  if (arguments.lease) elastic.lease = to_time(*arguments.lease, "--lease");
  if (arguments.timeout) elastic.timeout = to_time(*arguments.timeout, "--elastic-timeout");
  elastic.discovery_script = arguments.discovery_script.value_or("");
  elastic.task_restarts = arguments.max_restarts.value_or(elastic.task_restarts);
}

}  // namespace cohort::tools
