// Lets what is compiled with GCC 12 or newer run with the libstdc++ of GCC 11, which distributions with glibc 2.34
// have. One function stands in the way: std::condition_variable::wait(), whose newest version differs from the
// older one, which every libstdc++ has, in what it does when a thread is cancelled; Cohort cancels none. Programs
// that link this are linked with --wrap of its name (CohortInstall.cmake).
#include <condition_variable>
#include <mutex>

extern "C" {

void cohort_older_wait(std::condition_variable* changed, std::unique_lock<std::mutex>* lock);
__asm__(
    ".symver cohort_older_wait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* changed, std::unique_lock<std::mutex>* lock) {
  cohort_older_wait(changed, lock);
}
}
