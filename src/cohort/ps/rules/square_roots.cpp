#include "cohort/ps/rules/square_roots.h"

#include <cstdint>

// Weak: resolved when a program is linked against a LibTorch that brings them, null otherwise.
extern "C" {
[[gnu::weak]] void vmsSqrt(int n, const float* x, float* roots, std::int64_t mode);
[[gnu::weak]] void vmdSqrt(int n, const double* x, double* roots, std::int64_t mode);
}

namespace cohort::ps {
namespace {

// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as in ATen/cpu/vml.h.
constexpr std::int64_t kMode = 0x2 | 0x140000 | 0x100;

template <typename T>
bool take(void (*function)(int, const T*, T*, std::int64_t), T* x, std::size_t n) {
  if (!function) return false;
  function(static_cast<int>(n), x, x, kMode);
  return true;
}

}  // namespace

bool torch_square_roots(float* x, std::size_t n) { return take(vmsSqrt, x, n); }
bool torch_square_roots(double* x, std::size_t n) { return take(vmdSqrt, x, n); }

}  // namespace cohort::ps
