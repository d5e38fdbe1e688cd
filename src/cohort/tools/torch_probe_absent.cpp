// cohort-torch-probe of a build without LibTorch: same answer format, and how to get it.
#include <cstdio>

int main() {
  std::puts(
      R"({"works":false,"error":"this build has no LibTorch: run scripts/setup, then make build"})");
}
