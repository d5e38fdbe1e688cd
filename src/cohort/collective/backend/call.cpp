#include "cohort/collective/backend/call.h"

namespace cohort::collective {

std::string_view to_string(CallKind kind) {
  constexpr std::string_view kNames[] = {
      "barrier",        "all_reduce", "reduce",       "broadcast", "all_gather", "all_gather_v",
      "reduce_scatter", "all_to_all", "all_to_all_v", "gather",    "scatter"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string describe(const Call& call) {
  std::string text = fmt::format("{} #{}", to_string(call.kind), call.sequence);
  if (call.kind == CallKind::barrier) return text;
  text += fmt::format(" of {} x {}", call.count, to_string(call.dtype));
  switch (call.kind) {
    case CallKind::all_reduce:
    case CallKind::reduce:
    case CallKind::reduce_scatter:
      text += fmt::format(", {}", to_string(call.op));
      if (call.pre_scale != 1) text += fmt::format(", pre_scale {}", call.pre_scale);
      if (call.post_scale != 1) text += fmt::format(", post_scale {}", call.post_scale);
      break;
    default:
      break;
  }
  switch (call.kind) {
    case CallKind::reduce:
    case CallKind::broadcast:
    case CallKind::gather:
    case CallKind::scatter:
      text += fmt::format(", root {}", call.root);
      break;
    default:
      break;
  }
  return text;
}

}  // namespace cohort::collective
