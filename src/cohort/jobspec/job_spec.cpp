#include "cohort/jobspec/job_spec.h"

namespace cohort::jobspec {

std::string_view name_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::none:
      return "none";
    case Distribution::parameter_server:
      return "parameter_server";
    case Distribution::mpi:
      return "mpi";
    case Distribution::multi_worker_mirrored:
      return "multi_worker_mirrored";
  }
  return "";
}

}  // namespace cohort::jobspec
