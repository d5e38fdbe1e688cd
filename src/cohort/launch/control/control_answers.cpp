#include "cohort/launch/control/control_answers.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"

namespace cohort::launch {
namespace {

using nlohmann::ordered_json;

// Far more than a request needs, and far less than the stack of a parser that goes in deeper.
constexpr int kDeepest = 8;

ordered_json parse(std::string_view line) {
  bool too_deep = false;
  const auto watch = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  auto json = ordered_json::parse(line, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) throw InvalidInput("the request is no JSON object");
  return json;
}

int workers_of(const ordered_json& request) {
  const auto found = request.find("workers");
  if (found == request.end() || !found->is_number_unsigned() ||
      found->get<std::uint64_t>() > std::numeric_limits<int>::max())
    throw InvalidInput("the request to scale has no number of workers");
  return found->get<int>();
}

ordered_json answer(const ordered_json& request, const ControlActions& actions) {
  const auto command = request.find("command");
  if (command == request.end() || !command->is_string())
    throw InvalidInput("the request names no command");
  if (*command == "status")
    return {{"ok", true}, {"status", ordered_json::parse(actions.status())}};
  if (*command == "scale") return {{"ok", true}, {"message", actions.scale(workers_of(request))}};
  throw InvalidInput(fmt::format("unknown command '{}'", command->get<std::string>().substr(0, 80)),
                     {.advice = "Ask for status or scale."});
}

}  // namespace

std::string answer_request(std::string_view line, const ControlActions& actions) {
  ordered_json reply;
  try {
    reply = answer(parse(line), actions);
  } catch (const std::exception& error) {
    reply = {{"ok", false}, {"message", error.what()}};
  }
  return reply.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace cohort::launch
