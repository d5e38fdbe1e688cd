#include <algorithm>
#include <nlohmann/json.hpp>

#include "cohort/service/api/handlers.h"
#include "cohort/service/api/json_rows.h"
#include "cohort/service/http/api_error.h"
#include "cohort/service/http/time_text.h"

namespace cohort::service {
namespace {

using Json = nlohmann::ordered_json;

Json amounts_json(const jobspec::Size& size, int times = 1) {
  return {{"cores", size.cores * times},
          {"memory", size.memory_bytes * static_cast<std::uint64_t>(times)},
          {"gpus", size.gpus * times}};
}

// Which job, and whose: of another's job a user learns that it is there.
Json owner_json(const Caller& caller, const JobRow& row) {
  if (!may_see(caller, row.user)) return {{"job", nullptr}, {"name", nullptr}, {"user", nullptr}};
  return {{"job", row.id}, {"name", row.name}, {"user", row.user}};
}

Json held_json(const Caller& caller, const JobRow& row) {
  Json json = owner_json(caller, row);
  json.update(amounts_json(jobspec::resolved_from_json(row.resolved).instance, row.instances));
  json["instances"] = row.instances;
  return json;
}

}  // namespace

HttpResponse get_cluster(ApiRequest& request) {
  request.query.require_only({});
  const ApiContext& context = request.context;
  const auto line = context.line();
  std::vector<std::pair<std::size_t, Json>> waiting;
  Json held = Json::array();
  for (const JobRow& row : context.store.unfinished_jobs()) {
    if (row.state == JobState::queued) {
      Json json = owner_json(request.caller, row);
      const auto place =
          static_cast<std::size_t>(std::find(line.begin(), line.end(), row.id) - line.begin());
      json["place"] = place < line.size() ? Json(place + 1) : Json(nullptr);
      // The sentence may name others' jobs.
      json["reason"] = may_see(request.caller, row.user) ? row.reason : std::string();
      json["since"] = time_text(row.submitted);
      waiting.emplace_back(place, std::move(json));
    } else if (const auto* engine = context.engine(row.engine);
               engine && engine->abilities().needs_queue) {
      held.push_back(held_json(request.caller, row));
    }
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Json in_line = Json::array();
  for (auto& [place, json] : waiting) in_line.push_back(std::move(json));
  return json_response(200, dumped({{"total", amounts_json(context.machine())},
                                    {"free", amounts_json(context.free())},
                                    {"held", std::move(held)},
                                    {"waiting", std::move(in_line)}}));
}

}  // namespace cohort::service
