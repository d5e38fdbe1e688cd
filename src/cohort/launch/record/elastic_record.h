#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cohort::launch {

// What is known about the membership of an elastic job: for job.json and `cohort status`. A value.
struct ElasticRecord {
  struct Member {
    std::string id;    // "worker/2.0.0"
    std::string task;  // "worker/2"
    std::string host;
    std::int64_t pid = 0;
    bool in_view = true;  // false: it waits to be taken

    // What its last beat told; only a launcher that is asked fills it in.
    struct Progress {
      std::int64_t stage = 0;
      std::int64_t step = 0;
      double rate = 0;  // samples a second
      double heard_ms_ago = 0;
    };
    std::optional<Progress> progress;
  };
  struct Change {
    std::string time;  // UTC timestamp
    std::uint64_t view = 0;
    std::string reason;
    // Once it trains: the first step made, and how long no member had made one.
    struct Cost {
      std::int64_t step = 0;
      double stood_still_ms = 0;
      bool redone = false;
    };
    std::optional<Cost> cost;
  };

  int least = 1;
  int most = 1;
  int wanted = 1;
  std::string phase;  // gathering, changing, training, over, failed
  std::uint64_t view = 0;
  std::vector<Member> members;
  std::optional<Change> last_change;
};

}  // namespace cohort::launch
