#include "cohort/engine/container_tool.h"

#include <filesystem>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/net/event_loop.h"
#include "cohort/base/text.h"
#include "cohort/launch/job/job.h"
#include "cohort/launch/output/program_run.h"
#include "cohort/launch/remote/remote_shell.h"

namespace cohort::engine {
namespace {

using cluster::Environment;
using launch::ProgramRun;

constexpr std::chrono::seconds kAnswerLimit{10};
constexpr std::chrono::seconds kRemovalLimit{60};

std::string path_of(const Environment& environment) {
  return environment.find_value("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
}

ProgramRun::Result ask_tool(const ContainerTool& tool, const std::vector<std::string>& words,
                            const Environment& environment, std::chrono::seconds limit) {
  std::vector<std::string> command = tool.command(words);
  const auto program = launch::find_program(command.front(), path_of(environment));
  command.erase(command.begin());
  EventLoop loop;
  std::optional<ProgramRun::Result> result;
  const ProgramRun run({.program = program,
                        .arguments = std::move(command),
                        .environment = environment,
                        .limit = limit},
                       loop, [&result](ProgramRun::Result said) { result = std::move(said); });
  while (!result) loop.run_once(Deadline::never());
  return *result;
}

}  // namespace

std::vector<std::string> ContainerTool::command(const std::vector<std::string>& more) const {
  std::vector<std::string> command = words;
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

ContainerTool find_container_tool(const Environment& environment) {
  std::vector<std::vector<std::string>> candidates = {{"podman"}, {"docker"}};
  if (const auto named = environment.find_value(kContainerToolVariable); named && !named->empty())
    candidates = {launch::split_shell_words(*named)};
  for (const auto& words : candidates) {
    if (words.empty()) continue;
    try {
      launch::find_program(words.front(), path_of(environment));
      const std::string name = std::filesystem::path(words.front()).filename().string();
      return {.words = words, .is_docker = name.starts_with("docker")};
    } catch (const InvalidInput&) {
      if (candidates.size() == 1) throw;
    }
  }
  throw InvalidInput(
      "there is neither podman nor docker to run containers with",
      {.advice = fmt::format("Install one of them, or name it by {}.", kContainerToolVariable)});
}

std::string missing_image(const std::string& image, const Environment& environment) {
  try {
    const ContainerTool tool = find_container_tool(environment);
    const auto said = ask_tool(tool, {"image", "inspect", "--format", "{{.Id}}", image},
                               environment, kAnswerLimit);
    if (said.failure.empty()) return "";
    std::vector<std::string> pull;
    for (const std::string& word : tool.command({"pull", image})) pull.push_back(shell_quote(word));
    return fmt::format("the image '{}' is not here ({}); fetch it with: {}", image, said.failure,
                       join(pull, " "));
  } catch (const InvalidInput& error) {
    return fmt::format("the image '{}' cannot run: {}", image, error.message());
  }
}

int remove_containers(std::string_view label, std::string_view value,
                      const Environment& environment) {
  const ContainerTool tool = find_container_tool(environment);
  const auto checked = [&](const std::vector<std::string>& words) {
    auto said = ask_tool(tool, words, environment, kRemovalLimit);
    if (!said.failure.empty())
      throw PeerError(fmt::format("'{}' failed: {}", join(tool.command(words), " "), said.failure));
    return said.output;
  };
  const std::string listed =
      checked({"ps", "--all", "--quiet", "--filter", fmt::format("label={}={}", label, value)});
  std::vector<std::string> words = {"rm", "--force"};
  for (const std::string& id : split(listed, '\n'))
    if (!trim(id).empty()) words.emplace_back(trim(id));
  const int count = static_cast<int>(words.size()) - 2;
  if (count > 0) checked(words);
  return count;
}

}  // namespace cohort::engine
