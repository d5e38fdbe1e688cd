#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Where lines begin and end in a log that can only be read from an offset on. Pure but for `read`.
namespace cohort::service {

// At most `most` bytes from `offset` on; none behind the end.
using ReadLog = std::function<std::string(std::uint64_t offset, std::size_t most)>;

// Where the last `lines` lines of a log begin. Asks some tens of times for a byte to find the end,
// then reads backwards, 16 MiB at most: what lies before is left out.
std::uint64_t offset_of_tail(const ReadLog& read, std::uint64_t lines);

// How many of `bytes` may be sent: whole lines; when there is none, all of a piece of `most` bytes
// (a long line) and of the last bytes of a log (`ended`), less a character of UTF-8 that is cut
// off at the end; else 0.
std::size_t sendable(std::string_view bytes, std::size_t most, bool ended);

}  // namespace cohort::service
