#include "cohort/collective/world.h"

#include <utility>

#include "cohort/base/error.h"
#include "cohort/base/net/handshake.h"
#include "cohort/base/text.h"
#include "cohort/cluster/environment.h"
#include "cohort/collective/backend/peer.h"
#include "cohort/transport/host.h"
#include "cohort/transport/store_rendezvous.h"
#include "cohort/transport/tcp/messenger.h"

namespace cohort::collective {

namespace {

constexpr std::uint32_t kJoinProtocol = protocol_id("SHMJ");

bool read_flag(const cluster::Environment& environment, const char* name) {
  const std::string value = environment.find_value(name).value_or("");
  if (value != "" && value != "0" && value != "1")
    throw InvalidInput(fmt::format("{} is '{}'", name, value), {.advice = "Set it to 1 or 0."});
  return value == "1";
}

constexpr unsigned kLongestSilence = 86400;

}  // namespace

NetworkOptions NetworkOptions::from(const cluster::Environment& environment,
                                    const cluster::Role& role) {
  NetworkOptions options;
  const auto session = cluster::SessionOptions::from(environment);
  options.secret = session.secret;
  options.insecure = session.insecure;
  options.tls = read_flag(environment, "COHORT_TLS");
  if (const std::string text = environment.find_value("COHORT_STREAMS").value_or("");
      !text.empty()) {
    const auto streams = parse_unsigned(text);
    if (!streams || *streams > transport::tcp::kMaxStreams)
      throw InvalidInput(
          fmt::format("COHORT_STREAMS is '{}'", text),
          {.advice = fmt::format("Set it to a number from 0 to {}.", transport::tcp::kMaxStreams)});
    options.streams = static_cast<int>(*streams);
  }
  if (const std::string text = environment.find_value("COHORT_SILENCE").value_or("");
      !text.empty()) {
    const auto seconds = parse_unsigned(text);
    if (!seconds || *seconds > kLongestSilence)
      throw InvalidInput(fmt::format("COHORT_SILENCE is '{}'", text),
                         {.advice = fmt::format("Set it to a number of seconds from 0 (a silent "
                                                "peer ends no call before its deadline) to {}.",
                                                kLongestSilence)});
    options.silence = std::chrono::seconds(*seconds);
  }
  if (const std::string file = environment.find_value("COHORT_TUNING").value_or("");
      !file.empty() && role.rank == 0)
    options.tuning = TuningTable::read(file);
  // A host that the cluster names is what the others can reach, but perhaps not one of this
  // machine's own addresses: so every interface is bound.
  const bool networked = !role.cluster.empty() ? !cluster::is_loopback(role.host())
                         : role.store          ? !cluster::is_loopback(role.store->host)
                                               : role.local_size < role.size;
  if (networked) {
    options.bind_host = "";
    options.advertise = role.cluster.empty() ? transport::host_name() : role.host();
  }
  return options;
}

void use_network(FormOptions& form, const NetworkOptions& network) {
  form.tuning = network.tuning;
  form.authenticate = [secret = network.secret](int socket, bool server, Deadline deadline,
                                                const Check& check) {
    const HandshakeOptions options{.protocol = kJoinProtocol, .secret = secret, .identity = {}};
    if (server)
      server_handshake(socket, options, deadline, "a process of this host", check);
    else
      client_handshake(socket, options, deadline, "the rank that offers this host's memory", check);
  };
  form.connect = [network](const Member& self, const std::string& id, const auto& rendezvous) {
    const std::string host = self.host.empty() ? transport::host_name() : self.host;
    return transport::tcp::make_messenger({.rank = self.rank,
                                           .size = self.size,
                                           .id = id,
                                           .secret = network.secret,
                                           .insecure = network.insecure,
                                           .bind_host = network.bind_host,
                                           .advertise = network.advertise,
                                           .streams = network.streams,
                                           .tls = network.tls,
                                           .name = Peer{self.rank, self.task, host}.name(),
                                           .silence = network.silence},
                                          rendezvous, Deadline::after(std::chrono::seconds(60)));
  };
}

std::unique_ptr<Group> form_world(cluster::Session& session, const NetworkOptions& network,
                                  std::chrono::milliseconds timeout) {
  const cluster::Role& role = session.role();
  if (!role.is_training())
    throw InvalidInput(fmt::format("{} does not train, so it has no rank", to_string(role.task)));
  if (session.is_alone()) return make_group_of_one();
  FormOptions form{.timeout = timeout, .authenticate = {}, .connect = {}};
  NetworkOptions trusted = network;
  if (!trusted.secret) trusted.secret = session.secret();
  use_network(form, trusted);
  return form_group(
      {.rank = role.rank,
       .size = role.size,
       .task = to_string(role.task),
       .host = role.cluster.empty() ? "" : role.host(),
       .host_identity = {}},
      std::make_shared<transport::StoreRendezvous>(session.store(), session.key("collective")),
      form, Deadline::after(timeout));
}

void World::leave(Deadline deadline) {
  group.reset();
  session->done(deadline);
  session->close(deadline);
  if (finalize) std::exchange(finalize, nullptr)();
}

World join_world(const cluster::Environment& environment,
                 const std::vector<std::string>& arguments) {
  const cluster::Role role = cluster::discover_role(environment, arguments);
  World world;
  world.session = cluster::Session::join(role, cluster::SessionOptions::from(environment));
  if (role.is_training())
    world.group = form_world(*world.session, NetworkOptions::from(environment, role));
  return world;
}

World join_world(int argc, const char* const* argv) {
  return join_world(cluster::Environment::of_this_process(), {argv, argv + argc});
}

}  // namespace cohort::collective
