#include "cohort/engine/container_places.h"

namespace cohort::engine {
namespace {

namespace fs = std::filesystem;

// Part of `folder`, or nothing: the path from there.
fs::path below(const fs::path& folder, const fs::path& path) {
  const fs::path rest = path.lexically_relative(folder);
  return rest.empty() || *rest.begin() == ".." ? fs::path() : rest;
}

}  // namespace

ContainerPlaces container_places(const jobspec::ResolvedJob& job, const jobspec::Folders& here) {
  ContainerPlaces places;
  const auto mount = [&places](const fs::path& folder, const fs::path& inside, bool writable) {
    if (folder.empty()) return fs::path();
    places.mounts.push_back({.here = folder, .inside = inside, .writable = writable});
    return inside;
  };
  places.inside.output = mount(here.output, "/data/output", true);
  const fs::path in_output = here.output.empty() ? fs::path() : below(here.output, here.model);
  places.inside.model =
      in_output.empty() ? mount(here.model, "/data/model", true) : places.inside.output / in_output;
  places.inside.source = mount(here.source, "/data/code", false);
  for (const auto& [channel, input] : job.spec.inputs) {
    const auto found = here.channels.find(channel);
    const fs::path place =
        found == here.channels.end() ? fs::path(jobspec::channel_place(input)) : found->second;
    if (place.native().find("://") != std::string::npos) continue;
    const fs::path folder = fs::path("/data/input") / channel;
    std::error_code code;
    const bool is_file = fs::is_regular_file(place, code);
    places.inside.channels[channel] =
        mount(place, is_file ? folder / place.filename() : folder, false);
  }
  return places;
}

}  // namespace cohort::engine
