#pragma once

#include <memory>
#include <vector>

#include "cohort/transport/messenger.h"

namespace cohort::transport::inproc {

// Messengers that join `size` threads of this process, for tests of what runs between hosts:
// result[r] is rank r's. They may outlive each other.
std::vector<std::unique_ptr<Messenger>> make_messengers(int size);

}  // namespace cohort::transport::inproc
