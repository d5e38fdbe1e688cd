#include "cohort/ps/client/link_state.h"

#include <fmt/core.h>

namespace cohort::ps {

void LinkState::set_layout_locked() {
  const auto number = static_cast<std::size_t>(server);
  outbox.grow(client.layout->outbox_bytes[number]);
  if (is_remote()) inbox.resize(client.layout->inbox_bytes[number]);
}

void LinkState::connection_lost_locked() {
  if (ready) client.requests.break_snapshots();  // one that was not there yet has lost nothing
  proven = welcome = ready = false;
  client.changed.notify_all();
}

std::string LinkState::trouble_locked() const {
  if (proven) return {};
  std::string text = fmt::format("is not reachable: {}", reason);
  if (losses > 0) text += fmt::format("; {} reconnects", losses);
  return text;
}

}  // namespace cohort::ps
