#include "cohort/service/http/json_body.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cohort/base/text.h"
#include "cohort/service/http/api_error.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

// Throws as soon as a limit is passed, or a field is there twice.
class BodyWatch {
 public:
  void see(int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > kMostJsonLevels) refuse("is nested more than {} levels", kMostJsonLevels);
    if (++values_ > kMostJsonValues) refuse("has more than {} values", kMostJsonValues);
    if (event == Event::object_start) fields_.emplace_back();
    if (event == Event::object_end) fields_.pop_back();
    if (event != Event::key) return;
    const auto& name = parsed.get_ref<const std::string&>();
    if (!fields_.back().insert(name).second)
      refuse("has the field '{}' twice", escape_controls(name.substr(0, kShownName)));
    if (fields_.back().size() > kMostJsonFields)
      refuse("has an object of more than {} fields", kMostJsonFields);
  }

 private:
  static constexpr std::size_t kShownName = 100;

  template <typename T>
  [[noreturn]] static void refuse(const char* what, const T& value) {
    throw ApiError(400, "the JSON " + fmt::format(fmt::runtime(what), value));
  }

  std::size_t values_ = 0;
  std::vector<std::set<std::string>> fields_;  // of the objects that are open
};

Json parse(std::string_view body) {
  BodyWatch watch;
  const auto bounded = [&watch](int depth, Json::parse_event_t event, const Json& parsed) {
    watch.see(depth, event, parsed);
    return true;
  };
  try {
    return Json::parse(body, bounded);
  } catch (const Json::parse_error& error) {
    throw ApiError(400, fmt::format("the body is no JSON: at byte {}", error.byte));
  } catch (const Json::exception& error) {
    throw ApiError(400, fmt::format("the body is no JSON: {}", error.what()));
  }
}

}  // namespace

Json parse_body(std::string_view body, const std::vector<std::string>& known) {
  Json json = parse(body);
  if (!json.is_object()) throw ApiError(400, "the body must be a JSON object");
  for (const auto& [name, value] : json.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string meant = nearest(name, known);
    throw ApiError(400, fmt::format("unknown field '{}'", escape_controls(name)),
                   {.advice = meant.empty() ? fmt::format("There are: {}.", join(known, ", "))
                                            : fmt::format("Did you mean {}?", meant)});
  }
  return json;
}

std::string text_field(const Json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return {};
  if (!found->is_string()) throw ApiError(400, fmt::format("{} must be a text", name));
  return found->get<std::string>();
}

int number_field(const Json& body, const char* name, int least, int most, int otherwise) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return otherwise;
  return number_field(body, name, least, most);
}

int number_field(const Json& body, const char* name, int least, int most) {
  const auto found = body.find(name);
  if (found == body.end())
    throw ApiError(400,
                   fmt::format("{} is missing: a whole number from {} to {}", name, least, most));
  const bool fits = found->is_number_integer() && *found >= least && *found <= most;
  if (!fits)
    throw ApiError(
        400, fmt::format("{} is {}, and must be a whole number from {} to {}", name,
                         found->dump(-1, ' ', true, Json::error_handler_t::replace), least, most));
  return found->get<int>();
}

}  // namespace cohort::service
