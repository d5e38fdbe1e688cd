#include "cohort/ps/client/requests.h"

#include "cohort/base/error.h"

namespace cohort::ps {

std::shared_ptr<Request> Request::to_all(Kind what, int servers) {
  auto request = std::make_shared<Request>(what, servers);
  for (Part& part : request->parts) part.wanted = true;
  return request;
}

void Requests::add(const Pointer& request) {
  if (request->id == 0) request->id = next_++;
  for (const Request::Part& part : request->parts) request->missing += part.is_open() ? 1 : 0;
  open_.emplace(request->id, request);
}

Requests::Pointer Requests::find(std::uint64_t id, Request::Kind kind, int server) const {
  const auto found = open_.find(id);
  if (found == open_.end()) return nullptr;
  if (found->second->kind != kind || !found->second->part(server).wanted)
    throw ProtocolError(fmt::format("an answer to request {} of another kind", id));
  return found->second;
}

Requests::Pointer Requests::find_snapshot() const {
  for (const auto& [id, request] : open_)
    if (request->kind == Request::Kind::snapshot) return request;
  throw ProtocolError("a piece of a snapshot that was not requested");
}

bool Requests::finish_part(std::uint64_t id, Request::Kind kind, int server) {
  const Pointer request = find(id, kind, server);
  if (request == nullptr || request->part(server).done) return false;
  request->part(server).done = true;
  --request->missing;
  return true;
}

void Requests::break_snapshots() {
  for (const auto& [id, request] : open_)
    if (request->kind == Request::Kind::freeze || request->kind == Request::Kind::snapshot)
      request->broken = true;
}

std::vector<Requests::Pointer> Requests::open_of(int server) const {
  std::vector<Pointer> found;
  for (const auto& [id, request] : open_)
    if (request->part(server).is_open() && !request->broken) found.push_back(request);
  return found;
}

}  // namespace cohort::ps
