#include "cohort/collective/nccl/nccl.h"

#include "cohort/collective/nccl/forming.h"
#include "cohort/collective/nccl/nccl_library.h"

namespace cohort::collective::nccl {

std::string version(std::string* why) {
  const NcclLibrary* library = NcclLibrary::find(why);
  return library == nullptr ? std::string() : version_text(library->version());
}

bool may_share_gpu() {
  const NcclLibrary* library = NcclLibrary::find();
  return library != nullptr && may_share_gpu(library->version());
}

std::unique_ptr<DeviceGroup> form(Group& group, const Participant& self, Deadline deadline,
                                  std::chrono::milliseconds timeout) {
  Candidate candidate{.device = self.device, .problem = self.problem};
  std::string why;
  candidate.library = NcclLibrary::find(&why);
  if (candidate.problem.empty()) candidate.problem = why;
  return form(group, candidate, deadline, timeout);
}

}  // namespace cohort::collective::nccl
