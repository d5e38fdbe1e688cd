#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cohort::engine::kubernetes {

// A kubeconfig file as JSON. It is read as kubectl, kind, k3s and the clouds' tools write it: block
// maps and lists, plain or quoted texts in one line, empty {} and [], comments, one document; or as
// JSON. All scalars become texts, but for true, false and null. What else YAML has (anchors, flow
// collections, block texts) is refused. Throws InvalidInput that names `source` and the line.
nlohmann::json read_small_yaml(std::string_view text, const std::string& source);

}  // namespace cohort::engine::kubernetes
