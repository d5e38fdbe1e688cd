#include "cohort/ps/state/replay.h"

#include "cohort/base/error.h"

namespace cohort::ps {

bool replay(ServerState& state, const UpdateRecord& record) {
  const std::uint64_t version = state.version(record);
  if (record.version <= version) return false;
  if (record.version != version + 1)
    throw ProtocolError(fmt::format("it has version {} of {} {}, whose last is {}", record.version,
                                    record.kind == UpdateRecord::Kind::dense ? "slice" : "table",
                                    record.target, version));
  state.prepare(record);
  state.publish(record);
  return true;
}

}  // namespace cohort::ps
