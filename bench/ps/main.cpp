// How fast are the parameter servers on this machine, and what does it depend on? Servers and
// workers are real processes; what is computed is checked, element by element, against what must
// come out.
// usage: ps_bench [--rounds N] [--quick] [--only steps|latency|durability|many_workers|growth]...
#include <algorithm>
#include <cstdlib>
#include <set>

#include "bench/ps/sections.h"

namespace {

using namespace cohort;

struct Section {
  std::string name;
  void (*measure)(const bench::Size&, bench::Targets&);
};

const Section kSections[] = {{"steps", bench::measure_steps},
                             {"latency", bench::measure_latency},
                             {"durability", bench::measure_durability},
                             {"many_workers", bench::measure_many_workers},
                             {"growth", bench::measure_growth}};

}  // namespace

int main(int argc, char** argv) {
  bench::Size size;
  std::set<std::string> only;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--quick") {
      size.quick = true;
    } else if (word == "--rounds" && std::atoi(value.c_str()) > 0) {
      size.rounds = std::atoi(argv[++i]);
    } else if (word == "--only" && std::ranges::count(kSections, value, &Section::name) == 1) {
      only.insert(argv[++i]);
    } else {
      fmt::print(stderr, "usage: ps_bench [--rounds N] [--quick] [--only SECTION]...\n");
      for (const Section& section : kSections) fmt::print(stderr, "  {}\n", section.name);
      return 2;
    }
  }
  try {
    bench::Targets targets("ps_servers");
    for (const Section& section : kSections)
      if (only.empty() || only.contains(section.name)) section.measure(size, targets);
    targets.finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "ps_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
