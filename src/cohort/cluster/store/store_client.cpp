#include "cohort/cluster/store/store_client.h"

#include <poll.h>

#include <algorithm>
#include <set>

#include "cohort/base/error.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/net/socket.h"
#include "cohort/base/text.h"
#include "cohort/cluster/store/store_channel.h"
#include "cohort/cluster/store/store_protocol.h"

namespace cohort::cluster {
namespace {

using std::chrono::milliseconds;

// The store keeps the deadline of calls that wait, and its answer tells who was missing. Only when
// it does not answer at all does the client give up, this much later.
constexpr milliseconds kAnswerSlack{250};

std::string describe(const StoreRequest& request) {
  return fmt::format("{} '{}'", to_string(request.op), request.key);
}

void check_size(const StoreRequest& request) {
  if (request.key.size() > kMaxStoreKey)
    throw InvalidInput(fmt::format("a store key of {} bytes: '{}...'", request.key.size(),
                                   request.key.substr(0, 40)),
                       {.during = std::string(to_string(request.op)),
                        .advice = fmt::format("Use at most {} bytes.", kMaxStoreKey)});
  std::size_t size = std::max(request.value.size(), request.expected.value_or("").size());
  if (size > kMaxStoreValue)
    throw InvalidInput(fmt::format("a store value of {} bytes", size),
                       {.during = describe(request),
                        .advice = fmt::format("Use at most {} bytes; the store is for finding each "
                                              "other, not for data.",
                                              kMaxStoreValue)});
}

bool waits(StoreOp op) {
  return op == StoreOp::get || op == StoreOp::wait_counter || op == StoreOp::barrier;
}

StoreResponse call(StoreChannel& channel, StoreRequest request, Deadline deadline) {
  check_size(request);
  std::string during = describe(request);
  Deadline limit = deadline;
  if (waits(request.op) && !deadline.is_never()) {
    request.timeout_ms = static_cast<std::uint32_t>(std::max(1, deadline.poll_timeout_ms()));
    limit = Deadline::at(deadline.when() + kAnswerSlack);
  }
  try {
    StoreResponse response = channel.call(std::move(request), limit);
    if (response.status == StoreStatus::invalid)
      throw InvalidInput(
          fmt::format("the store at {} refused: {}", channel.store(), *response.value));
    if (response.status == StoreStatus::lost) throw PeerError(*response.value);
    return response;
  } catch (const TimeoutError& error) {
    throw TimeoutError(error.message(), {.during = during});
  } catch (const PeerError& error) {
    throw PeerError(error.message(), {.during = during});
  } catch (const InvalidInput& error) {
    throw InvalidInput(error.message(), {.during = during});
  }
}

// Who is missing, as well as it can be told.
std::string describe_missing(std::int64_t count, const BarrierOptions& options,
                             const std::vector<std::pair<std::string, std::string>>& others) {
  std::set<std::string> here = {options.member};
  for (const auto& [name, unused] : others) here.insert(name);
  std::vector<std::string> missing;
  for (const auto& member : options.members)
    if (!here.count(member)) missing.push_back(member);
  constexpr std::size_t kShown = 10;
  auto shorten = [](std::vector<std::string> names) {
    std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
    names.resize(names.size() - more);
    return join(names, ", ") + (more ? fmt::format(" and {} more", more) : "");
  };
  std::string text = fmt::format("{} of {} came", others.size() + 1, count);
  here.erase("");
  if (!missing.empty())
    text += "; missing: " + shorten(std::move(missing));
  else if (!here.empty())
    text += ": " + shorten({here.begin(), here.end()});
  return text;
}

}  // namespace

StoreWatch::StoreWatch(std::shared_ptr<StoreChannel> channel, std::uint64_t id)
    : channel_(std::move(channel)), id_(id) {}

StoreWatch::~StoreWatch() {
  if (channel_) channel_->close_watch(id_);
}

std::optional<StoreEvent> StoreWatch::next(Deadline deadline) {
  auto event = channel_->next_event(id_, deadline);
  if (!event) return std::nullopt;
  auto kind =
      event->status == StoreStatus::event_set ? StoreEvent::Kind::set : StoreEvent::Kind::removed;
  return StoreEvent{kind, std::move(event->key), *event->value};
}

StoreClient::StoreClient(StoreClientOptions options, std::shared_ptr<StoreChannel> channel)
    : options_(std::move(options)), channel_(std::move(channel)) {}

StoreClient::~StoreClient() { close(); }

std::unique_ptr<StoreClient> StoreClient::connect(const StoreClientOptions& options,
                                                  Deadline deadline) {
  Endpoint endpoint = Endpoint::tcp(options.address.host, options.address.port);
  std::string peer = fmt::format("the store at {}", endpoint.to_string());
  HandshakeOptions handshake{
      .protocol = kStoreProtocol, .secret = options.secret, .identity = options.name};
  while (true) {
    UniqueFd fd = connect_with_retry(endpoint, deadline);
    try {
      HandshakeResult result = client_handshake(fd.get(), handshake, deadline, peer);
      auto channel = std::make_shared<StoreChannel>(std::move(fd), result.keys,
                                                    endpoint.to_string(), options.silence);
      return std::unique_ptr<StoreClient>(new StoreClient(options, std::move(channel)));
    } catch (const PeerError& error) {
      // A server that stops as another takes its place, or one that is full for the moment.
      if (deadline.remaining() < milliseconds(100)) throw;
      ::poll(nullptr, 0, 50);
    }
  }
}

std::unique_ptr<StoreClient> StoreClient::connect_again(const std::string& name,
                                                        Deadline deadline) const {
  StoreClientOptions options = options_;
  options.name = name;
  return connect(options, deadline);
}

void StoreClient::close() { channel_->close(); }

void StoreClient::set(const std::string& key, std::string value, Deadline deadline) {
  call(*channel_, {.op = StoreOp::set, .key = key, .value = std::move(value)}, deadline);
}

void StoreClient::post(const std::string& key, std::string value, Deadline deadline) {
  StoreRequest request{.op = StoreOp::set, .key = key, .value = std::move(value)};
  check_size(request);
  channel_->post(std::move(request), deadline);
}

std::string StoreClient::get(const std::string& key, Deadline deadline) {
  auto response = call(*channel_, {.op = StoreOp::get, .key = key}, deadline);
  if (response.status == StoreStatus::timed_out)
    throw TimeoutError(
        fmt::format("no task set '{}' in the store at {} in time", key, channel_->store()),
        {.during = fmt::format("get '{}'", key)});
  return *response.value;
}

std::optional<std::string> StoreClient::try_get(const std::string& key, Deadline deadline) {
  auto response = call(*channel_, {.op = StoreOp::try_get, .key = key}, deadline);
  if (response.status == StoreStatus::missing) return std::nullopt;
  return *response.value;
}

CompareAndSetResult StoreClient::compare_and_set(const std::string& key,
                                                 std::optional<std::string> expected,
                                                 std::string desired, Deadline deadline) {
  auto response = call(*channel_,
                       {.op = StoreOp::compare_and_set,
                        .key = key,
                        .value = std::move(desired),
                        .expected = std::move(expected)},
                       deadline);
  if (response.status == StoreStatus::ok) return {.swapped = true, .found = std::nullopt};
  CompareAndSetResult result;
  if (response.number == 1) result.found = *response.value;
  return result;
}

bool StoreClient::remove(const std::string& key, Deadline deadline) {
  return call(*channel_, {.op = StoreOp::remove, .key = key}, deadline).status == StoreStatus::ok;
}

std::vector<std::pair<std::string, std::string>> StoreClient::list(const std::string& prefix,
                                                                   Deadline deadline) {
  return call(*channel_, {.op = StoreOp::list, .key = prefix}, deadline).entries;
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t delta, Deadline deadline) {
  return call(*channel_, {.op = StoreOp::add, .number = delta, .key = key}, deadline).number;
}

std::int64_t StoreClient::wait_counter(const std::string& key, std::int64_t at_least,
                                       Deadline deadline) {
  auto response =
      call(*channel_, {.op = StoreOp::wait_counter, .number = at_least, .key = key}, deadline);
  if (response.status == StoreStatus::timed_out)
    throw TimeoutError(fmt::format("counter '{}' in the store at {} did not reach {} in time", key,
                                   channel_->store(), at_least),
                       {.during = fmt::format("wait_counter '{}'", key)});
  return std::stoll(*response.value);
}

void StoreClient::barrier(const std::string& name, std::int64_t count, Deadline deadline,
                          const BarrierOptions& options) {
  BarrierOptions mine = options;
  if (mine.member.empty()) mine.member = options_.name;
  auto response = call(*channel_,
                       {.op = StoreOp::barrier,
                        .number = count,
                        .key = name,
                        .value = mine.member,
                        .members = mine.members},
                       deadline);
  if (response.status == StoreStatus::timed_out)
    throw TimeoutError(
        fmt::format("barrier '{}' at the store {} was not complete in time: {}", name,
                    channel_->store(), describe_missing(count, mine, response.entries)),
        {.task = mine.member,
         .during = fmt::format("barrier '{}'", name),
         .advice = "Start those who are missing, or look at their logs."});
}

StoreWatch StoreClient::watch(const std::string& prefix, Deadline deadline) {
  StoreRequest request{.op = StoreOp::watch, .key = prefix};
  check_size(request);
  return StoreWatch(channel_, channel_->open_watch(std::move(request), deadline));
}

void StoreClient::set_on_disconnect(const std::string& key, std::string value, Deadline deadline) {
  call(*channel_, {.op = StoreOp::set_on_disconnect, .key = key, .value = std::move(value)},
       deadline);
}

void StoreClient::cancel_on_disconnect(const std::string& key, Deadline deadline) {
  call(*channel_, {.op = StoreOp::cancel_on_disconnect, .key = key}, deadline);
}

}  // namespace cohort::cluster
