#pragma once

#include <atomic>
#include <cstdint>

#include "cohort/base/deadline.h"

// Sleeping on a word of memory that other threads or other processes (a shared mapping) change.
// Thread-safe. Nothing to clean up: a process that dies asleep leaves no trace in the word.
namespace cohort::transport {

// Sleeps while `word` holds `expected`. False when the deadline passed; true for any other reason
// to look again, spurious ones included.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline);

void futex_wake_all(std::atomic<std::uint32_t>& word);

}  // namespace cohort::transport
