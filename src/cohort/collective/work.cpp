#include "cohort/collective/work.h"

#include "cohort/collective/work_state.h"

namespace cohort::collective {

bool Work::poll() const { return state_->poll(); }
void Work::wait(Deadline deadline) { state_->wait(deadline); }

}  // namespace cohort::collective
