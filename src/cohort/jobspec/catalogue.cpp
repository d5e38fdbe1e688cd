#include "cohort/jobspec/catalogue.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"
#include "cohort/jobspec/document.h"
#include "cohort/jobspec/instance_type.h"
#include "cohort/jobspec/shipped_catalogue.h"
#include "cohort/jobspec/value.h"

namespace cohort::jobspec {
namespace {

using Kind = RuntimeEnvironment::Kind;

CatalogueEnvironment read_catalogue_environment(const Value& value) {
  CatalogueEnvironment entry;
  for (const auto& [key, below] : value.entries()) {
    if (key == "framework") {
      entry.framework = below.text();
    } else if (key == "version") {
      entry.version = below.text();
    } else if (key == "python") {
      entry.python = below.text();
    } else if (key == "venv" || key == "image") {
      if (!entry.place.empty()) value.refuse("must have one of venv and image");
      entry.kind = key == "venv" ? Kind::venv : Kind::image;
      entry.place = below.text();
    } else {
      below.refuse_key(key, {"framework", "version", "python", "venv", "image"});
    }
  }
  if (entry.place.empty()) value.refuse("must have one of venv and image");
  return entry;
}

void add_on_top(Catalogues& all, Catalogues more) {
  for (auto& [name, size] : more.instance_types) all.instance_types[name] = size;
  all.environments.insert(all.environments.begin(), more.environments.begin(),
                          more.environments.end());
}

}  // namespace

Catalogues parse_catalogue(std::string_view text, const std::string& name) {
  Source source{.name = name, .lines = {}};
  const auto document = parse_toml_document(text, source);
  Catalogues result;
  for (const auto& [key, value] : Value(document, "", source).entries()) {
    if (key == "instance_types") {
      for (const auto& [type, below] : value.entries()) {
        const auto size = parse_own_size(below.text());
        if (!size) below.refuse("must be CORESxMEMORY[xGPUS], as in 4x16g or 8x61gx1");
        result.instance_types[type] = *size;
      }
    } else if (key == "environments") {
      for (const Value& element : value.elements())
        result.environments.push_back(read_catalogue_environment(element));
    } else {
      value.refuse_key(key, {"instance_types", "environments"});
    }
  }
  return result;
}

const Catalogues& shipped_catalogue() {
  static const Catalogues catalogue =
      parse_catalogue(kShippedCatalogue, "share/cohort/catalogue.toml");
  return catalogue;
}

Catalogues read_catalogues(const std::filesystem::path& root) {
  Catalogues all = shipped_catalogue();
  const auto add_file = [&all](const std::filesystem::path& path) {
    add_on_top(all, parse_catalogue(read_file(path), path.string()));
  };
  if (!root.empty() && std::filesystem::exists(root / "catalogue.toml"))
    add_file(root / "catalogue.toml");
  if (const char* named = std::getenv("COHORT_CATALOGUE"); named != nullptr && *named != '\0') {
    if (!std::filesystem::exists(named))
      throw InvalidInput(fmt::format("COHORT_CATALOGUE names '{}', which is not there", named),
                         {.advice = "Correct the path, or unset COHORT_CATALOGUE."});
    add_file(named);
  }
  return all;
}

}  // namespace cohort::jobspec
