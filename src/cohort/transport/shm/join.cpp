#include "cohort/transport/shm/join.h"

#include <sys/random.h>

#include <array>
#include <cstring>
#include <string_view>

#include "cohort/base/error.h"
#include "cohort/base/log/log.h"
#include "cohort/base/text.h"
#include "cohort/transport/shm/fd_passing.h"
#include "cohort/transport/shm/mapped_arena.h"

namespace cohort::transport::shm {

namespace {

// No process may hold up the others for longer by connecting and saying nothing.
constexpr auto kHandshakeLimit = std::chrono::seconds(5);
// What rank 0 publishes in place of a socket's name where all go on in the memory that they hold;
// the table's offset follows.
constexpr std::string_view kHeld = "held ";

std::string random_name() {
  std::array<std::uint64_t, 2> bits;
  if (::getrandom(bits.data(), sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw SystemError("draw random bytes", errno);
  return fmt::format("cohort-{:016x}{:016x}", bits[0], bits[1]);
}

// Rank 0: hands the file to size - 1 peers that prove that they belong here.
void serve(int listener, const UniqueFd& file, const ArenaLayout& layout,
           const JoinOptions& options, Deadline deadline) {
  for (int served = 0; served < layout.size - 1;) {
    const UniqueFd peer = wait_checking(
        options.check, deadline, [&](Deadline slice) { return accept_from(listener, slice); });
    if (!peer_is_same_user(peer.get())) continue;
    const Deadline soon =
        Deadline::at(std::min(deadline.when(), Deadline::after(kHandshakeLimit).when()));
    try {
      if (options.authenticate) options.authenticate(peer.get(), true, soon, options.check);
      send_fd(peer.get(), layout.part_bytes, file.get(), soon);
      ++served;
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      if (options.check) options.check();  // no peer is at fault then
      log::warning("refused a process that asked for the group's memory: {}", error.what());
    }
  }
}

}  // namespace

std::size_t default_part_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::size_t{1} << 30;  // sanitizers shadow the address space
#else
  return std::size_t{64} << 30;
#endif
}

std::shared_ptr<Arena> join(Rendezvous& rendezvous, const JoinOptions& options, Deadline deadline) {
  ArenaLayout layout{options.size,
                     options.part_bytes != 0 ? options.part_bytes : default_part_bytes()};
  const std::string key = options.key + "/socket";
  const bool carries = options.carried != nullptr;
  const auto held = carries ? options.carried->common(options.claims) : nullptr;
  std::shared_ptr<MappedArena> arena;
  if (options.rank == 0 && held && CarriedMemory::belongs_to(*held, options.claims)) {
    const std::size_t bytes = Arena::table_bytes(options.size);
    std::byte* table = held->allocate(bytes);
    std::memset(table, 0, bytes);
    const auto offset = static_cast<std::size_t>(table - held->data());
    rendezvous.set(key, fmt::format("{}{}", kHeld, offset), deadline);
    arena = std::make_shared<MappedArena>(0, options.size, held, offset);
  } else if (options.rank == 0) {
    const UniqueFd file = make_arena_file(layout);
    const std::string name = random_name();
    auto memory = std::make_shared<ArenaMemory>(name, file, layout, 0, carries);
    arena = std::make_shared<MappedArena>(0, options.size, std::move(memory), 0);
    if (options.size > 1) {
      const UniqueFd listener = listen_abstract(name);
      rendezvous.set(key, name, deadline);
      serve(listener.get(), file, layout, options, deadline);
    }
  } else if (const std::string name = rendezvous.get(key, deadline); name.starts_with(kHeld)) {
    const auto offset = parse_unsigned(name.substr(kHeld.size()));
    if (!held || !offset || *offset + Arena::table_bytes(options.size) > held->bytes())
      throw ProtocolError("rank 0 goes on in memory that this rank does not hold");
    arena = std::make_shared<MappedArena>(options.rank, options.size, held, *offset);
  } else {
    const auto patiently = [&](auto&& wait) {
      return wait_checking(options.check, deadline, wait);
    };
    const UniqueFd socket =
        patiently([&](Deadline slice) { return connect_abstract(name, slice); });
    if (!peer_is_same_user(socket.get()))
      throw AuthError("the process that offers this host's shared memory runs as another user");
    if (options.authenticate) options.authenticate(socket.get(), false, deadline, options.check);
    const FdMessage message =
        patiently([&](Deadline slice) { return receive_fd(socket.get(), slice); });
    layout.part_bytes = message.value;
    auto memory = std::make_shared<ArenaMemory>(name, message.fd, layout, options.rank, carries);
    arena = std::make_shared<MappedArena>(options.rank, options.size, std::move(memory), 0);
  }
  wait_checking(options.check, deadline, [&](Deadline slice) { arena->meet(slice); });
  if (carries) options.carried->set(arena->memory());
  return arena;
}

}  // namespace cohort::transport::shm
