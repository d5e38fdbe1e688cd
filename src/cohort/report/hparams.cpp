#include "cohort/report/hparams.h"

namespace cohort::report {
namespace {

// tensorboard.hparams.DataType
std::uint64_t data_type(const HyperParameter& value) {
  if (std::holds_alternative<std::string>(value)) return 1;
  return std::holds_alternative<bool>(value) ? 2 : 3;
}

// google.protobuf.Value
Proto encode(const HyperParameter& value) {
  Proto proto;
  if (auto* number = std::get_if<double>(&value)) proto.number(2, *number);
  if (auto* text = std::get_if<std::string>(&value)) proto.text(3, *text);
  if (auto* flag = std::get_if<bool>(&value)) proto.integer(4, *flag);
  return proto;
}

}  // namespace

HparamsEntry experiment_entry(const HyperParameters& parameters,
                              const std::vector<std::string>& metrics, double now) {
  Proto experiment;
  experiment.number(3, now);
  for (const auto& [name, value] : parameters)
    experiment.message(4, Proto().text(1, name).integer(4, data_type(value)));
  for (const auto& tag : metrics) experiment.message(5, Proto().message(1, Proto().text(2, tag)));
  return {"_hparams_/experiment", Proto().message(2, experiment)};
}

HparamsEntry session_start_entry(const HyperParameters& parameters, double now) {
  Proto session;
  for (const auto& [name, value] : parameters)
    session.message(1, Proto().text(1, name).message(2, encode(value)));
  session.number(5, now);
  return {"_hparams_/session_start_info", Proto().message(3, session)};
}

HparamsEntry session_end_entry(SessionStatus status, double now) {
  Proto session;
  session.integer(1, static_cast<std::uint64_t>(status)).number(2, now);
  return {"_hparams_/session_end_info", Proto().message(4, session)};
}

}  // namespace cohort::report
