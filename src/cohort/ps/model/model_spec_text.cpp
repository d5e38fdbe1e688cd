#include "cohort/ps/model/model_spec_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/base/error.h"
#include "cohort/ps/model/model_spec_checks.h"

namespace cohort::ps {
namespace {

using Json = nlohmann::ordered_json;

// ---- writing

// -0.0 equals 0.0, so it must have its text too.
double plain(double value) { return value + 0.0; }

Json rule_to_json(const UpdateRule& rule) {
  return {{"kind", to_string(rule.kind)},
          {"lr", plain(rule.lr)},
          {"weight_decay", plain(rule.weight_decay)},
          {"momentum", plain(rule.momentum)},
          {"dampening", plain(rule.dampening)},
          {"nesterov", rule.nesterov},
          {"beta1", plain(rule.beta1)},
          {"beta2", plain(rule.beta2)},
          {"amsgrad", rule.amsgrad},
          {"eps", plain(rule.eps)},
          {"alpha", plain(rule.alpha)},
          {"centered", rule.centered},
          {"lr_decay", plain(rule.lr_decay)},
          {"initial_accumulator", plain(rule.initial_accumulator)}};
}

Json block_to_json(const Block& block) {
  Json parts = Json::array();
  for (const Part& part : block.parts)
    parts.push_back(Json::array({part.name, part.offset, part.elements, part.group}));
  return {{"type", block.type == ElementType::f64 ? "f64" : "f32"},
          {"elements", block.elements},
          {"parts", std::move(parts)}};
}

Json table_to_json(const TableSpec& table) {
  return {{"name", table.name},
          {"dimension", table.dimension},
          {"group", table.group},
          {"rows", table.rows},
          {"admit_after", table.admit_after},
          {"keep_for", table.keep_for},
          {"initial_scale", plain(table.initial_scale)},
          {"seed", table.seed}};
}

// ---- reading

[[noreturn]] void refuse_spec(const std::string& what) {
  throw InvalidInput("a model's description " + what);
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// A dictionary that has exactly the fields that are asked for. `where` names it in errors.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object())
      refuse_spec(fmt::format("has {} as {}, not a dictionary", shown(object), where_));
  }

  const Json& at(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse_spec(fmt::format("lacks \"{}\" in {}", name, where_));
    ++read_;
    return *found;
  }
  const Json& list(const char* name, std::size_t limit) {
    const Json& value = at(name);
    if (!value.is_array() || value.size() > limit)
      wrong(name, value, fmt::format("a list of at most {}", limit));
    return value;
  }
  template <typename Integer>
  Integer integer(const char* name, std::uint64_t least, std::uint64_t most) {
    return static_cast<Integer>(checked(name, at(name), least, most));
  }
  double number(const char* name) {
    const Json& value = at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      wrong(name, value, "a finite number");
    return value.get<double>();
  }
  bool boolean(const char* name) {
    const Json& value = at(name);
    if (!value.is_boolean()) wrong(name, value, "true or false");
    return value.get<bool>();
  }
  std::string text(const char* name, std::size_t limit) { return text(name, at(name), limit); }

  std::uint64_t checked(const char* name, const Json& value, std::uint64_t least,
                        std::uint64_t most) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
        value.get<std::uint64_t>() > most)
      wrong(name, value, fmt::format("a whole number from {} to {}", least, most));
    return value.get<std::uint64_t>();
  }
  std::string text(const char* name, const Json& value, std::size_t limit) const {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > limit)
      wrong(name, value, fmt::format("a text of at most {} bytes", limit));
    return value.get<std::string>();
  }
  // A field that is not read here belongs to a spec of another version.
  void done() const {
    if (object_.size() != read_)
      refuse_spec(fmt::format("has {} fields in {}; {} are known", object_.size(), where_, read_));
  }
  [[noreturn]] void wrong(const char* name, const Json& value, const std::string& expected) const {
    refuse_spec(
        fmt::format("has {} as \"{}\" of {}, not {}", shown(value), name, where_, expected));
  }

 private:
  const Json& object_;
  std::string where_;
  std::size_t read_ = 0;
};

UpdateRule rule_from_json(const Json& json, std::size_t index) {
  Fields fields(json, fmt::format("group {}", index));
  UpdateRule rule;
  rule.kind = parse_rule_kind(fields.text("kind", 32));
  rule.lr = fields.number("lr");
  rule.weight_decay = fields.number("weight_decay");
  rule.momentum = fields.number("momentum");
  rule.dampening = fields.number("dampening");
  rule.nesterov = fields.boolean("nesterov");
  rule.beta1 = fields.number("beta1");
  rule.beta2 = fields.number("beta2");
  rule.amsgrad = fields.boolean("amsgrad");
  rule.eps = fields.number("eps");
  rule.alpha = fields.number("alpha");
  rule.centered = fields.boolean("centered");
  rule.lr_decay = fields.number("lr_decay");
  rule.initial_accumulator = fields.number("initial_accumulator");
  fields.done();
  return rule;
}

Block block_from_json(const Json& json, std::size_t index) {
  Fields fields(json, fmt::format("block {}", index));
  Block block;
  const std::string type = fields.text("type", 8);
  if (type != "f32" && type != "f64") fields.wrong("type", Json(type), "f32 or f64");
  block.type = type == "f64" ? ElementType::f64 : ElementType::f32;
  block.elements = fields.integer<std::uint64_t>("elements", 1, kMaxElements);
  for (const Json& part : fields.list("parts", kMaxParts)) {
    if (!part.is_array() || part.size() != 4)
      fields.wrong("parts", part, "a list of name, offset, elements and group");
    block.parts.push_back(
        {.name = fields.text("parts", part[0], kMaxNameBytes),
         .offset = fields.checked("parts", part[1], 0, kMaxElements),
         .elements = fields.checked("parts", part[2], 0, kMaxElements),
         .group = static_cast<int>(fields.checked("parts", part[3], 0, kMaxGroups))});
  }
  fields.done();
  return block;
}

TableSpec table_from_json(const Json& json, std::size_t index) {
  Fields fields(json, fmt::format("table {}", index));
  TableSpec table;
  table.name = fields.text("name", kMaxNameBytes);
  table.dimension = fields.integer<int>("dimension", 1, kMaxDimension);
  table.group = fields.integer<int>("group", 0, kMaxGroups);
  table.rows = fields.integer<std::uint64_t>("rows", 0, kMaxElements);
  table.admit_after = fields.integer<int>("admit_after", 1, 1 << 30);
  table.keep_for = fields.integer<std::uint64_t>("keep_for", 0, UINT64_MAX);
  table.initial_scale = fields.number("initial_scale");
  table.seed = fields.integer<std::uint64_t>("seed", 0, UINT64_MAX);
  fields.done();
  return table;
}

Policy policy_from_json(const Json& json) {
  Fields fields(json, "the policy");
  Policy policy;
  policy.mode = parse_mode(fields.text("mode", 32));
  policy.aggregate = fields.integer<int>("aggregate", 0, kMaxWorkers);
  policy.staleness = fields.integer<std::int64_t>("staleness", 0, INT64_MAX);
  policy.not_finite = parse_not_finite(fields.text("not_finite", 32));
  fields.done();
  return policy;
}

// Deeper than any spec is refused while it is read.
Json parse_json(const std::string& text) {
  if (text.size() > kMaxSpecBytes)
    refuse_spec(fmt::format("has {} bytes; at most {} are allowed", text.size(), kMaxSpecBytes));
  static constexpr int kMaxDepth = 5;
  try {
    return Json::parse(text, [](int depth, Json::parse_event_t, const Json&) {
      if (depth > kMaxDepth) refuse_spec(fmt::format("is nested deeper than {} levels", kMaxDepth));
      return true;
    });
  } catch (const Json::exception& error) {
    refuse_spec(fmt::format("is not JSON: {}", error.what()));
  }
}

}  // namespace

std::string to_text(const ModelSpec& spec) {
  Json json = {{"workers", spec.workers},
               {"shards", spec.shards},
               {"policy",
                {{"mode", to_string(spec.policy.mode)},
                 {"aggregate", spec.policy.aggregate},
                 {"staleness", spec.policy.staleness},
                 {"not_finite", to_string(spec.policy.not_finite)}}},
               {"agreement", spec.agreement},
               {"groups", Json::array()},
               {"blocks", Json::array()},
               {"tables", Json::array()}};
  for (const UpdateRule& rule : spec.groups) json["groups"].push_back(rule_to_json(rule));
  for (const Block& block : spec.blocks) json["blocks"].push_back(block_to_json(block));
  for (const TableSpec& table : spec.tables) json["tables"].push_back(table_to_json(table));
  try {
    return json.dump();
  } catch (const Json::exception& error) {
    throw InvalidInput(
        fmt::format("a model's description has a text that is not UTF-8: {}", error.what()),
        {.advice = "Name parameters in plain text."});
  }
}

ModelSpec parse_model_spec(const std::string& text) {
  const Json json = parse_json(text);
  Fields fields(json, "the model");
  ModelSpec spec;
  spec.workers = fields.integer<int>("workers", 1, kMaxWorkers);
  spec.shards = fields.integer<int>("shards", 1, kMaxShards);
  spec.policy = policy_from_json(fields.at("policy"));
  spec.agreement = fields.text("agreement", kMaxSpecBytes);
  for (const Json& group : fields.list("groups", kMaxGroups))
    spec.groups.push_back(rule_from_json(group, spec.groups.size()));
  for (const Json& block : fields.list("blocks", kMaxBlocks))
    spec.blocks.push_back(block_from_json(block, spec.blocks.size()));
  for (const Json& table : fields.list("tables", kMaxTables))
    spec.tables.push_back(table_from_json(table, spec.tables.size()));
  fields.done();
  check(spec);
  return spec;
}

}  // namespace cohort::ps
