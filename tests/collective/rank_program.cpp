// One rank as a process of its own, for tests that kill and stop processes.
// usage: collective_rank RANK SIZE STORE_HOST STORE_PORT ID MODE
//   loop   collectives of all sizes until one fails; prints "error TEXT"
//   once   one barrier
//   brief  as loop, with a deadline of 300 ms a call
//   tcp-loop, tcp-brief: the same, as if each rank had a host of its own
//   pairs-loop, pairs-brief: the same, as if each two ranks had one
// Prints "ready" when the group stands.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cohort/base/error.h"
#include "cohort/collective/form.h"
#include "cohort/collective/world.h"
#include "cohort/transport/store_rendezvous.h"

namespace {

using namespace cohort;

void loop(collective::Group& group, std::chrono::milliseconds limit) {
  std::vector<float> own(300'000, 1);
  const collective::Buffer shared = group.allocate(4 << 20);
  for (float& x : shared.as<float>()) x = 0;
  const auto until = [&] { return Deadline::after(limit); };
  while (true) {
    group.all_reduce(std::span(own).first(16), {.deadline = until()});
    group.all_reduce(std::span(own), {.op = collective::ReduceOp::average, .deadline = until()});
    group.all_reduce(shared.as<float>(), {.deadline = until()});
    group.broadcast(std::span(own), 0, {until()});
    std::vector<float> all(static_cast<std::size_t>(group.size()) * 5'000);
    group.all_gather(own.data(), all.data(), 5'000, collective::DataType::f32, {until()});
    const int next = (group.rank() + 1) % group.size();
    const int previous = (group.rank() + group.size() - 1) % group.size();
    group.send(own.data(), 1'000, collective::DataType::f32, next, {until()});
    group.recv(own.data(), 1'000, collective::DataType::f32, previous, {until()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int rank = std::atoi(argv[1]);
  const int size = std::atoi(argv[2]);
  const std::string way = argv[6];
  const std::string mode = way.substr(way.find('-') + 1);
  const int ranks_a_host = way.starts_with("tcp-") ? 1 : way.starts_with("pairs-") ? 2 : size;
  const Deadline soon = Deadline::after(std::chrono::seconds(30));
  auto store = cluster::StoreClient::connect({.address = {argv[3], std::atoi(argv[4])},
                                              .secret = {},
                                              .name = fmt::format("rank/{}", rank)},
                                             soon);
  auto rendezvous = std::make_shared<transport::StoreRendezvous>(*store, argv[5]);
  collective::Member self{.rank = rank, .size = size, .task = fmt::format("worker/{}", rank)};
  collective::FormOptions form;
  if (ranks_a_host < size) {
    self.host_identity = fmt::format("host {}", rank / ranks_a_host);
    collective::use_network(form, {});
  }
  const auto group = collective::form_group(self, rendezvous, form, soon);
  std::printf("ready\n");
  std::fflush(stdout);
  if (mode == "once") {
    group->barrier();
    return 0;
  }
  try {
    loop(*group, std::chrono::milliseconds(mode == "brief" ? 300 : 20'000));
  } catch (const Error& error) {
    std::printf("error %s\n", error.what());
  }
  return 0;
}
