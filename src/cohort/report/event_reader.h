#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort::report {

struct ScalarEvent {
  std::string tag;
  std::int64_t step = 0;
  double value = 0;
  double time = 0;  // seconds since 1970
};

struct EventPart {
  std::vector<ScalarEvent> scalars;
  std::uint64_t next = 0;  // where to go on: behind the last whole record
  bool more = false;       // there is more to read now
  bool damaged = false;    // at `next` begins what is no record: nothing behind it can be found
};

// The scalars of an event file from a record's beginning on: TensorBoard's, TensorFlow's, PyTorch's
// or EventWriter's. Reads about `most_bytes`, whole records; what is half at the end of the file is
// left for the next time, so that a file which grows can be followed. Other values (histograms,
// images, text) and records whose data do not fit their checksum are left out.
//
// Bounded: records of more than a MiB are passed over unread. Follows no symbolic links, never
// waits. Throws SystemError; a file that is not there is an empty part. No state; any thread.
EventPart read_events(const std::filesystem::path& path, std::uint64_t offset,
                      std::size_t most_bytes);

}  // namespace cohort::report
