#pragma once

namespace cohort {

// For tests: whether this program is compiled with AddressSanitizer or ThreadSanitizer, and so
// several times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cohort
