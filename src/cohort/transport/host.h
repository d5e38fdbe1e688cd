#pragma once

#include <string>

namespace cohort::transport {

// Text that is equal for two processes exactly when they can share memory and watch each other:
// same running kernel, same network, pid and mount namespaces (a container is a host of its own).
std::string host_identity();

// The name of this host for people.
std::string host_name();

}  // namespace cohort::transport
