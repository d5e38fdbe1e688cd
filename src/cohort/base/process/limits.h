#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

class Error;

// Raises this process's soft limit of open files (RLIMIT_NOFILE) towards `wanted`, as far as the
// hard limit allows; never lowers it. Returns the limit that then holds. Thread-safe.
std::uint64_t raise_file_limit(std::uint64_t wanted);

// Throws SystemError that names `what` and the limits unless this process can have so many more
// threads now. For code that cannot say so itself: a library that starts threads on a thread of its
// own ends the process with "terminate called" instead.
void require_threads(int count, std::string_view what);

// A sentence that names the limits on processes and memory, and what they are now.
std::string limits_advice();

// The system refused for want of descriptors, processes or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM,
// EAGAIN), which may well pass: worth another try, a little later.
bool is_shortage(const Error& error);

// What a process of Cohort asks for: room for every peer of a large job, and no more, since some
// programs walk over every descriptor that the limit allows.
constexpr std::uint64_t kWantedFiles = 16384;

// How many connections that have not proven who they are one listener may hold: an eighth of the
// limit of open files, between 16 and 1024. Past it, one of them goes when another comes.
std::size_t unauthenticated_limit();

// Whether `newest`, a descriptor that was just opened, is among the last that the limit allows. The
// system gives out the lowest free number, so few are left then: they are for the process's own
// work, and a connection that has not proven itself goes.
bool is_short_of_files(int newest);

}  // namespace cohort
