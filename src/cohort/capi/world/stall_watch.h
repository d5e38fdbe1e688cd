#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cohort/capi/requests/request_engine.h"

namespace cohort::capi {

struct StallOptions {
  std::chrono::milliseconds warning{60'000};  // 0: none
  std::chrono::milliseconds shutdown{0};      // 0: never
  // Where ranks that wait leave notes for each other: a rank that has not come into a round cannot
  // be asked. post(note), and which notes with this prefix there are. Empty: warnings then name no
  // ranks where no rank's news say more. May throw.
  std::function<void(const std::string& note)> post;
  std::function<std::vector<std::string>(const std::string& prefix)> list;
};

// Warns, from a thread of its own, of requests that wait for too long, once each, and names the
// ranks that are missing; and breaks the world off where that was asked for.
class StallWatch {
 public:
  struct Watched {
    int set;
    std::vector<std::int32_t> ranks;  // of the world
    std::shared_ptr<RequestEngine> engine;
  };

  // `engines`: those to look at now. `give_up`: a request has waited for `shutdown`. Both are called
  // on the watch's thread.
  StallWatch(StallOptions options, std::function<std::vector<Watched>()> engines,
             std::function<void(const Failure&)> give_up);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void run();
  void look(const Watched& watched);
  std::vector<std::int32_t> absent(const Watched& watched, std::uint64_t round) const;

  const StallOptions options_;
  const std::function<std::vector<Watched>()> engines_;
  const std::function<void(const Failure&)> give_up_;
  std::map<int, std::uint64_t> posted_;  // by set: the round of this rank's last note
  std::set<std::string> warned_;         // requests, by set, kind, name and time
  std::mutex mutex_;                     // guards stopping_
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace cohort::capi
