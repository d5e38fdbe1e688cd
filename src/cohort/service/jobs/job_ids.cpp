#include "cohort/service/jobs/job_ids.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <random>

namespace cohort::service {
namespace {

constexpr std::size_t kIdTimeLength = 15;  // of "20261116-190102"
constexpr std::size_t kIdLength = kIdTimeLength + 7;
constexpr unsigned kIdTails = 1u << 24;

std::string id_time(std::time_t seconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string next_job_id(std::string_view last, Millis now) {
  std::random_device chance;
  const auto tail = static_cast<unsigned>(now % 1000) * 4 * 4096 + chance() % (4 * 4096);
  std::string id = fmt::format("{}-{:06x}", id_time(now / 1000), tail);
  if (last.size() != kIdLength || id > last) return id;
  // The clock stands or went back: on from the last one.
  unsigned last_tail = 0;
  std::from_chars(last.data() + kIdTimeLength + 1, last.data() + kIdLength, last_tail, 16);
  if (last_tail + 1 < kIdTails)
    return fmt::format("{}-{:06x}", last.substr(0, kIdTimeLength), last_tail + 1);
  std::tm parts{};
  ::strptime(std::string(last.substr(0, kIdTimeLength)).c_str(), "%Y%m%d-%H%M%S", &parts);
  return fmt::format("{}-{:06x}", id_time(::timegm(&parts) + 1), 0);
}

}  // namespace cohort::service
