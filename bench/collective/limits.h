#pragma once

#include <cstddef>

// What the machine can do at best, for the benchmark's last column.
namespace cohort::bench {

// Median microseconds of two processes that do a[i] = b[i] = a[i] + b[i] on shared pages, half the
// elements each, for buffers of `bytes` bytes of f32.
double shared_sum_micros(std::size_t bytes);

// Median microseconds in which two processes send each other `bytes` bytes over loopback TCP, both
// ways at once.
double raw_tcp_micros(std::size_t bytes);

}  // namespace cohort::bench
