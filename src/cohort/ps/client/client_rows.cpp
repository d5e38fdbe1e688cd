// Rows of embedding tables: keys are dealt to the servers that have them.
#include <cstring>

#include "cohort/base/error.h"
#include "cohort/ps/client/client_impl.h"

namespace cohort::ps {

const TableSpec& Client::Impl::table_of(int table) const {
  const auto& tables = layout().spec.tables;
  if (table < 0 || static_cast<std::size_t>(table) >= tables.size())
    throw InvalidInput(fmt::format("table {}; the model has {}", table, tables.size()));
  return tables[static_cast<std::size_t>(table)];
}

void Client::Impl::pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                             float* values, Deadline deadline) {
  const auto dimension = static_cast<std::size_t>(table_of(table).dimension);
  const auto request = std::make_shared<Request>(Request::Kind::rows, core_.servers());
  request->table = table;
  request->sequence = sequence;
  std::vector<std::vector<std::size_t>> places(request->parts.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto server = static_cast<std::size_t>(server_of_key(keys[i], core_.servers()));
    request->parts[server].keys.push_back(keys[i]);
    places[server].push_back(i);
  }
  for (auto& part : request->parts) {
    part.wanted = !part.keys.empty();
    part.values.resize(part.keys.size() * dimension);
  }
  {
    std::unique_lock lock(core_.mutex);
    core_.complete(lock, request, "pulling rows", deadline);
    for (std::size_t server = 0; server < request->parts.size(); ++server)
      if (request->parts[server].wanted)
        core_.step.servers[server].tables[static_cast<std::size_t>(table)].version =
            request->parts[server].version;
  }
  for (std::size_t server = 0; server < places.size(); ++server)
    for (std::size_t i = 0; i < places[server].size(); ++i)
      std::memcpy(values + places[server][i] * dimension,
                  request->parts[server].values.data() + i * dimension, dimension * sizeof(float));
}

void Client::Impl::push_rows(int table, std::span<const std::uint64_t> keys,
                             std::span<const float> gradients) {
  const auto dimension = static_cast<std::size_t>(table_of(table).dimension);
  if (gradients.size() != keys.size() * dimension)
    throw InvalidInput(fmt::format("{} numbers for {} rows of {} in table '{}'", gradients.size(),
                                   keys.size(), dimension, table_of(table).name));
  std::vector<std::vector<std::size_t>> of_server(core_.links.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    of_server[static_cast<std::size_t>(server_of_key(keys[i], core_.servers()))].push_back(i);

  std::lock_guard lock(core_.mutex);
  StepState& step = core_.step;
  COHORT_CHECK(step.active && !step.ended, "rows are pushed outside of a step");
  for (std::size_t server = 0; server < of_server.size(); ++server) {
    StepState::Rows& rows = step.servers[server].tables[static_cast<std::size_t>(table)];
    COHORT_CHECK(!rows.pushed, "table {} is pushed twice in a step", table);
    const std::uint64_t count = of_server[server].size();
    rows.bytes.resize(sizeof count + count * (sizeof(std::uint64_t) + dimension * sizeof(float)));
    std::byte* out = rows.bytes.data();
    const auto put = [&out](const void* from, std::size_t bytes) {
      std::memcpy(out, from, bytes);
      out += bytes;
    };
    put(&count, sizeof count);
    for (const std::size_t i : of_server[server]) put(&keys[i], sizeof keys[i]);
    for (const std::size_t i : of_server[server])
      put(&gradients[i * dimension], dimension * sizeof(float));
    queue_rows_locked(table, static_cast<int>(server));
  }
  core_.wake();
}

void Client::Impl::queue_rows_locked(int table, int server) {
  core_.step.servers[static_cast<std::size_t>(server)]
      .tables[static_cast<std::size_t>(table)]
      .pushed = true;
  core_.links[static_cast<std::size_t>(server)]->enqueue_locked(
      {Link::Item::Kind::rows_push, table});
}

}  // namespace cohort::ps
