#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace cohort::launch {

// What a launcher does when it is asked.
struct ControlActions {
  std::function<std::string()> status;    // a JSON object, as job.json's
  std::function<std::string(int)> scale;  // what happens now, a sentence; throws InvalidInput
};

// Answers a request that came through the control socket, in one line:
//   {"command": "status"}                -> {"ok": true, "status": {...}}
//   {"command": "scale", "workers": N}   -> {"ok": true, "message": "..."}
//   anything else                        -> {"ok": false, "message": "..."}
// Never throws: whatever is wrong with the line is in the answer.
std::string answer_request(std::string_view line, const ControlActions& actions);

}  // namespace cohort::launch
