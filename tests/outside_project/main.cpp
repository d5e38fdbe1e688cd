#include <cohort/base/error.h>
#include <cohort/base/text.h>
#include <cohort/cluster/environment.h>

#include <cstdio>

int main() {
  auto environment = cohort::cluster::Environment::of_this_process();
  if (environment.find_value("PATH").value_or("").empty()) throw cohort::Error("PATH is not set");
  std::puts(cohort::shell_quote("an outside project").c_str());
}
