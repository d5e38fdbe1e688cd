#include "cohort/jobspec/resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cohort/base/error.h"
#include "cohort/base/text.h"
#include "cohort/jobspec/instance_type.h"

namespace cohort::jobspec {
namespace {

// Cohort's own sizes are meant as they are written; a platform's name stands for a machine that may
// not be at hand.
enum class Origin { own, platform };

struct NamedSize {
  Size size;
  Origin origin = Origin::own;
};

std::string same_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return result;
}

// What each of `count` instances has when they share the machines equally.
Size share_of(const Machine& machine, int count) {
  const int per_host = 1 + (count - 1) / machine.hosts;
  return {.cores = machine.size.cores / per_host,
          .memory_bytes = machine.size.memory_bytes / static_cast<std::uint64_t>(per_host),
          .gpus = machine.size.gpus / per_host};
}

std::string there_is(const Machine& machine) {
  return fmt::format("{} has {}", machine.hosts == 1 ? "this machine" : "each host",
                     to_words(machine.size));
}

NamedSize size_of_type(const std::string& type, int least, const Machine& machine,
                       const Catalogues& catalogues) {
  if (type == "local" || type == "local_gpu") {
    Size share = share_of(machine, least);
    share.memory_bytes = 0;  // not reserved: the job's own processes alone divide it
    if (type == "local") {
      share.gpus = 0;
    } else if (share.gpus == 0) {
      throw InvalidInput(fmt::format("instance_type 'local_gpu': {} instance{} need a GPU each, "
                                     "and {}",
                                     least, least == 1 ? "" : "s", there_is(machine)),
                         {.advice = "Use instance_type 'local', or fewer instances."});
    }
    return {share, Origin::own};
  }
  std::vector<std::string> known = {"local", "local_gpu"};
  for (const auto& [name, size] : catalogues.instance_types) {
    if (same_case(name) == same_case(type)) return {size, Origin::platform};
    known.push_back(name);
  }
  if (const auto size = parse_ti_name(type)) return {*size, Origin::platform};
  if (const auto size = parse_own_size(type)) return {*size, Origin::own};
  const std::string meant = nearest(type, known);
  throw InvalidInput(
      fmt::format("unknown instance_type '{}'", escape_controls(type)),
      {.advice = meant.empty() ? "Give cores and memory, as in 4x8g or 4x8gx1 (with a GPU), or put "
                                 "the name into a catalogue (COHORT_CATALOGUE)."
                               : fmt::format("Did you mean {}?", meant)});
}

bool exceeds(const Size& size, const Size& limit) {
  return size.cores > limit.cores || size.memory_bytes > limit.memory_bytes ||
         size.gpus > limit.gpus;
}

}  // namespace

Resources choose_resources(const JobSpec& spec, int least, const Machine& machine,
                           const Catalogues& catalogues) {
  const Size limit = share_of(machine, least);
  const bool in_parts = spec.cores || spec.memory_bytes || spec.gpus;
  if (spec.instance_type.empty() && !in_parts) {
    // Nothing was asked for: a core each, or as much of one as there is.
    const Size small{.cores = std::min(1.0, limit.cores)};
    return {.asked = small, .given = small};
  }
  if (!spec.instance_type.empty() && in_parts)
    throw InvalidInput(
        fmt::format("instance_type '{}' and {} exclude each other", spec.instance_type,
                    spec.cores          ? "cores"
                    : spec.memory_bytes ? "memory"
                                        : "gpus"),
        {.advice = "Leave one of them out."});
  NamedSize asked;
  std::string what;
  if (in_parts) {
    asked.size = {.cores = spec.cores.value_or(std::min(1.0, limit.cores)),
                  .memory_bytes = spec.memory_bytes.value_or(0),
                  .gpus = spec.gpus.value_or(0)};
    what = "that size";
  } else {
    asked = size_of_type(spec.instance_type, least, machine, catalogues);
    what = spec.instance_type;
  }
  Resources result{.asked = asked.size, .given = asked.size, .was_said = true};
  if (!exceeds(asked.size, limit)) return result;

  const std::string too_much =
      fmt::format("{} of {} with {} {} more than there is: {}",
                  least == 1 ? "an instance" : fmt::format("{} instances", least), what,
                  to_words(asked.size) + (least == 1 ? "" : " each"), least == 1 ? "is" : "are",
                  there_is(machine));
  if (asked.origin == Origin::own)
    throw InvalidInput(too_much, {.advice = "Ask for less, or for fewer instances."});
  if (spec.strict_resources)
    throw InvalidInput(too_much,
                       {.advice = "Leave strict_resources out to run with what there is."});
  result.given = {.cores = std::min(asked.size.cores, limit.cores),
                  .memory_bytes = std::min(asked.size.memory_bytes, limit.memory_bytes),
                  .gpus = std::min(asked.size.gpus, limit.gpus)};
  result.note =
      fmt::format("{}; {} gets {}", too_much, least == 1 ? "it" : "each", to_words(result.given));
  return result;
}

}  // namespace cohort::jobspec
