#pragma once

#include <chrono>

namespace cohort::launch {

// A start that the system had no descriptor or process for is tried again, for a minute.
inline constexpr int kStartTries = 240;
inline constexpr std::chrono::milliseconds kStartPause{250};

}  // namespace cohort::launch
