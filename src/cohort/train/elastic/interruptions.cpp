#include "cohort/train/elastic/interruptions.h"

#include "cohort/collective/group.h"

namespace cohort::elastic {

bool is_peer_loss(const std::exception& error) {
  return dynamic_cast<const PeerError*>(&error) != nullptr ||
         dynamic_cast<const TimeoutError*>(&error) != nullptr ||
         dynamic_cast<const ProtocolError*>(&error) != nullptr ||
         dynamic_cast<const collective::MismatchError*>(&error) != nullptr;
}

}  // namespace cohort::elastic
