// One rank as a process of its own, for tests that kill and stop processes.
// usage: collective_rank RANK SIZE STORE_HOST STORE_PORT ID MODE
//   loop   collectives of all sizes until one fails; prints "error TEXT"
//   once   one barrier
//   idle   makes no call until the group is known to be broken; prints "error TEXT"
//   brief  as loop, with a deadline of 300 ms a call
//   tcp-loop, tcp-brief: the same, as if each rank had a host of its own
//   pairs-loop, pairs-brief: the same, as if each two ranks had one
// usage: collective_rank world MODE
//   joins by its environment, as any program does; MODE is loop or brief (2 s), or
//   digest           runs collectives of many types and sizes; prints "digest" and a checksum of
//                    all results that this rank got
//   bandwidth BYTES  prints the median seconds of an all_reduce of that size
// usage: collective_rank apart SECONDS
//   joins by its environment, as if each rank had a host of its own; prints "rate N" every second,
//   the number of all_reduces of 1 MB in it
// Prints "ready" when the group stands.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cohort/base/data/crc32c.h"
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

// Values that do not add up exactly, so that another order of addition shows.
template <typename T>
std::vector<T> values(const collective::Group& group, std::size_t count) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] =
        static_cast<T>(1000.0 / static_cast<double>(1 + (i * 37 + 11) % 509) * (group.rank() + 1));
  return data;
}

class Results {
 public:
  template <typename T>
  void add(const std::vector<T>& data) {
    const std::uint32_t crc = crc32c(data.data(), data.size() * sizeof(T));
    text_ += fmt::format("{:08x}", crc);
  }
  std::uint32_t checksum() const { return crc32c(text_.data(), text_.size()); }

 private:
  std::string text_;
};

template <typename T>
void run_all(collective::Group& group, std::size_t count, Results& results) {
  const auto n = static_cast<std::size_t>(group.size());
  const collective::DataType type = collective::DataTypeOf<T>::value;
  std::vector<T> own = values<T>(group, count);
  std::vector<T> all(n * count), sum(count);
  group.all_reduce(own.data(), sum.data(), count, type);
  results.add(sum);
  group.all_gather(own.data(), all.data(), count, type);
  results.add(all);
  group.reduce_scatter(all.data(), sum.data(), count, type);
  results.add(sum);
  std::vector<T> swapped(n * count);
  group.all_to_all(all.data(), swapped.data(), count, type);
  results.add(swapped);
  group.broadcast(own.data(), count, type, group.size() - 1);
  results.add(own);
}

std::uint32_t digest(collective::Group& group) {
  Results results;
  for (const std::size_t count : {1u, 1'000u, 70'000u}) {
    run_all<float>(group, count, results);
    run_all<double>(group, std::min<std::size_t>(count, 1'000), results);
    run_all<std::int32_t>(group, std::min<std::size_t>(count, 1'000), results);
  }
  group.barrier();
  return results.checksum();
}

double median_seconds(collective::Group& group, std::size_t bytes) {
  const collective::Buffer buffer = group.allocate(bytes);
  for (float& x : buffer.as<float>()) x = 1;
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const auto start = Deadline::Clock::now();
    group.all_reduce(buffer.as<float>(), {.op = collective::ReduceOp::average});
    seconds.push_back(std::chrono::duration<double>(Deadline::Clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void announce() {
  std::printf("ready\n");
  std::fflush(stdout);
}

void loop_until_error(collective::Group& group, std::chrono::milliseconds limit) {
  try {
    loop(group, limit);
  } catch (const Error& error) {
    std::printf("error %s\n", error.what());
    std::fflush(stdout);
  }
}

int run_in_world(int argc, char** argv) {
  const std::string mode = argv[2];
  try {
    collective::World world = collective::join_world(argc, argv);
    announce();
    if (mode == "loop" || mode == "brief") {
      loop_until_error(*world.group, std::chrono::seconds(mode == "brief" ? 2 : 20));
      return 0;
    }
    if (mode == "digest")
      std::printf("digest %08x over %s\n", digest(*world.group),
                  world.group->backend_name().c_str());
    else
      std::printf("seconds %.6f\n",
                  median_seconds(*world.group, std::strtoul(argv[3], nullptr, 10)));
    std::fflush(stdout);
    world.leave();
    return 0;
  } catch (const Error& error) {
    std::printf("refused %s\n", error.what());
    return 1;
  }
}

int run_apart(int argc, char** argv) {
  const auto environment = cluster::Environment::of_this_process();
  const cluster::Role role = cluster::discover_role(environment, {argv, argv + argc});
  auto session = cluster::Session::join(role, cluster::SessionOptions::from(environment));
  collective::FormOptions form;
  collective::use_network(form, {.secret = session->secret()});
  const Deadline soon = Deadline::after(std::chrono::seconds(60));
  auto group = collective::form_group(
      {.rank = role.rank,
       .size = role.size,
       .task = to_string(role.task),
       .host_identity = fmt::format("host {}", role.rank)},
      std::make_shared<transport::StoreRendezvous>(session->store(), session->key("apart")), form,
      soon);
  announce();
  std::vector<float> values(250'000, 1);
  // Rank 0 tells the time, so that all leave after the same call.
  const auto begin = Deadline::Clock::now();
  auto second = begin;
  float goes_on = 1;
  for (int count = 1; goes_on > 0; ++count) {
    group->all_reduce(std::span(values), {.op = collective::ReduceOp::average});
    const auto now = Deadline::Clock::now();
    if (now - second >= std::chrono::seconds(1)) {
      std::printf("rate %.1f\n", count / std::chrono::duration<double>(now - second).count());
      std::fflush(stdout);
      second = now;
      count = 0;
    }
    if (role.rank == 0 && now - begin > std::chrono::seconds(std::atoi(argv[2]))) goes_on = 0;
    group->broadcast(std::span(&goes_on, 1), 0, {});
  }
  group.reset();
  session->done(soon);
  session->close(soon);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "world") return run_in_world(argc, argv);
  if (argc == 3 && std::string(argv[1]) == "apart") return run_apart(argc, argv);
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
  announce();
  if (mode == "once") {
    group->barrier();
    return 0;
  }
  if (mode == "idle") {
    while (!group->failure()) ::poll(nullptr, 0, 1);
    std::printf("error %s\n", group->failure()->c_str());
    return 0;
  }
  loop_until_error(*group, std::chrono::milliseconds(mode == "brief" ? 300 : 20'000));
  return 0;
}
