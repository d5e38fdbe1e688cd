#include "cohort/collective/native/tuning.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/base/files/files.h"

namespace cohort::collective {

namespace {

using Json = nlohmann::ordered_json;
using Rules = TuningTable::Rules;

constexpr const char* kFormat = "cohort-tuning-1";

// One list of rules as it stands in the file.
struct Field {
  const char* key;
  const char* from;  // what `from` counts
  std::size_t most;
  Rules TuningTable::*rules;
};

constexpr Field kFields[] = {
    {"all_reduce_inlined", "from_ranks", TuningTable::kMaxInlined, &TuningTable::inlined},
    {"all_reduce_exchange_all", "from_hosts", TuningTable::kMaxSmall, &TuningTable::exchange_all},
    {"all_reduce_recursive_doubling", "from_hosts", TuningTable::kMaxSmall,
     &TuningTable::recursive_doubling},
    {"broadcast_flat", "from_hosts", std::numeric_limits<std::size_t>::max(),
     &TuningTable::flat_broadcast},
};

[[noreturn]] void refuse(const std::string& source, const std::string& what,
                         const std::string& advice) {
  throw InvalidInput(fmt::format("{}: {}", source, what), {.advice = advice});
}

std::size_t bytes_for(const Rules& rules, int count) {
  std::size_t bytes = 0;
  for (const auto& rule : rules)
    if (rule.from <= count) bytes = rule.bytes;
  return bytes;
}

bool applies(const Rules& rules, int count, std::size_t bytes) {
  const std::size_t most = bytes_for(rules, count);
  return most > 0 && bytes <= most;
}

std::size_t read_number(const Json& rule, const char* name, std::size_t least, std::size_t most,
                        const std::string& where, const std::string& source) {
  const std::string advice = fmt::format("Give a whole number from {} to {}.", least, most);
  const auto value = rule.find(name);
  if (value == rule.end()) refuse(source, fmt::format("{} has no {}", where, name), advice);
  if (!value->is_number_unsigned() || value->get<std::size_t>() < least ||
      value->get<std::size_t>() > most)
    refuse(source, fmt::format("{}.{} is {}", where, name, value->dump()), advice);
  return value->get<std::size_t>();
}

Rules read_rules(const Json& list, const Field& field, const std::string& source) {
  const std::string shape = fmt::format(R"([{{"{}": 2, "up_to_bytes": 4096}}])", field.from);
  if (!list.is_array())
    refuse(source, fmt::format("{} is {}", field.key, list.dump()),
           fmt::format("Write a list such as {}.", shape));
  Rules rules;
  for (const Json& item : list) {
    const std::string where = fmt::format("{}[{}]", field.key, rules.size());
    if (!item.is_object())
      refuse(source, fmt::format("{} is {}", where, item.dump()),
             fmt::format("Write a list such as {}.", shape));
    for (const auto& [name, value] : item.items())
      if (name != field.from && name != "up_to_bytes")
        refuse(source, fmt::format("{} has the unknown key '{}'", where, name),
               fmt::format("Use {} and up_to_bytes.", field.from));
    const auto from =
        static_cast<int>(read_number(item, field.from, 2, TuningTable::kMaxFrom, where, source));
    if (!rules.empty() && rules.back().from >= from)
      refuse(source,
             fmt::format("{}.{} is {}, after {}", where, field.from, from, rules.back().from),
             "Sort the rules, smallest first, each number once.");
    rules.push_back({from, read_number(item, "up_to_bytes", 0, field.most, where, source)});
  }
  return rules;
}

}  // namespace

std::size_t TuningTable::inline_bytes(int ranks) const { return bytes_for(inlined, ranks); }

HostAllReduce TuningTable::all_reduce(int hosts, std::size_t bytes) const {
  if (applies(exchange_all, hosts, bytes)) return HostAllReduce::exchange_all;
  if (applies(recursive_doubling, hosts, bytes)) return HostAllReduce::recursive_doubling;
  return HostAllReduce::reduce_scatter;
}

HostBroadcast TuningTable::broadcast(int hosts, std::size_t bytes) const {
  return applies(flat_broadcast, hosts, bytes) ? HostBroadcast::flat : HostBroadcast::binomial;
}

std::string TuningTable::to_json(bool pretty) const {
  Json json{{"format", kFormat}};
  for (const Field& field : kFields) {
    Json& list = json[field.key] = Json::array();
    for (const Rule& rule : this->*field.rules)
      list.push_back({{field.from, rule.from}, {"up_to_bytes", rule.bytes}});
  }
  return pretty ? json.dump(2) + "\n" : json.dump();
}

TuningTable TuningTable::from_json(std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    refuse(source, "this is not a JSON object", "Write one with: cohort tune --output FILE");
  if (const auto format = json.find("format"); format == json.end() || *format != kFormat)
    refuse(source,
           format == json.end() ? "format is missing" : fmt::format("format is {}", format->dump()),
           fmt::format("Set it to \"{}\", or write the table anew with: cohort tune", kFormat));
  TuningTable table;
  for (const auto& [key, value] : json.items()) {
    if (key == "format") continue;
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const Field& known) { return key == known.key; });
    if (field == std::end(kFields)) {
      std::string known;
      for (const Field& each : kFields) known += fmt::format(" {}", each.key);
      refuse(source, fmt::format("the key '{}' is unknown", key),
             fmt::format("The keys are:{}.", known));
    }
    table.*(field->rules) = read_rules(value, *field, source);
  }
  return table;
}

TuningTable TuningTable::read(const std::filesystem::path& file) {
  return from_json(read_file(file), file.string());
}

}  // namespace cohort::collective
