#include <fmt/format.h>

#include <algorithm>

#include "cohort/base/text.h"
#include "cohort/jobspec/resources.h"

namespace cohort::jobspec {
namespace {

std::string small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

// "py3", "py37", "python3.7", "3.7" -> "3", "3.7", "3.7", "3.7".
std::string python_number(const std::string& asked) {
  std::string text = small_letters(asked);
  for (const char* prefix : {"python", "py"})
    if (text.starts_with(prefix)) {
      text = text.substr(std::string_view(prefix).size());
      break;
    }
  if (text.find('.') == std::string::npos && text.size() > 1) text.insert(1, ".");
  return text;
}

// "1.14" is met by 1.14 and by 1.14.0; "" by every one. A local part ("+cpu") does not count.
bool meets(const std::string& asked, std::string version) {
  version = version.substr(0, version.find('+'));
  return asked.empty() || version == asked || version.starts_with(asked + ".") ||
         asked.starts_with(version + ".");
}

std::string package_of(const std::string& framework) {
  const std::string name = small_letters(framework);
  return name == "pytorch" ? "torch" : name;
}

std::string note_of(const std::string& what, const std::string& asked, const std::string& there) {
  return there.empty()
             ? fmt::format("{} {} was asked for; the Python at hand has no {}", what, asked, what)
             : fmt::format("{} {} was asked for; the one at hand is {}", what, asked, there);
}

}  // namespace

// The catalogue's, else the virtual environment that the job's VIRTUAL_ENV names, else the one at hand.
RuntimeEnvironment choose_runtime(const JobSpec& spec, const Machine& machine,
                                  const Catalogues& catalogues, std::vector<std::string>& notes) {
  using Kind = RuntimeEnvironment::Kind;
  if (!spec.image.empty())
    return {.kind = Kind::image, .place = spec.image, .version = spec.framework_version};
  if (spec.framework.empty() && spec.py_version.empty() && !spec.env.contains("VIRTUAL_ENV"))
    return {};
  const std::string python = python_number(spec.py_version);
  for (const CatalogueEnvironment& entry : catalogues.environments) {
    const bool fits = package_of(entry.framework) == package_of(spec.framework) &&
                      (entry.version.empty() || meets(spec.framework_version, entry.version)) &&
                      (entry.python.empty() || meets(python, python_number(entry.python)));
    if (fits) return {.kind = entry.kind, .place = entry.place, .version = entry.version};
  }
  RuntimeEnvironment result;
  auto version_of = machine.version_at_hand;
  if (const auto own = spec.env.find("VIRTUAL_ENV"); own != spec.env.end()) {
    result = {.kind = Kind::venv, .place = own->second};
    if (!machine.version_in_venv) return result;
    version_of = [&machine, venv = own->second](std::string_view package) {
      return machine.version_in_venv(package, venv);
    };
  }
  if (!version_of) return result;
  if (!spec.framework.empty() && !spec.framework_version.empty() &&
      small_letters(spec.framework) != "cohort") {
    result.version = version_of(package_of(spec.framework));
    if (result.version.empty() || !meets(spec.framework_version, result.version))
      notes.push_back(note_of(spec.framework, spec.framework_version, result.version));
  }
  if (!python.empty()) {
    const std::string there = version_of("python");
    if (there.empty() || !meets(python, there)) notes.push_back(note_of("Python", python, there));
  }
  return result;
}

}  // namespace cohort::jobspec
