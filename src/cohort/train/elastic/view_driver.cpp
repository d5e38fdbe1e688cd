#include "cohort/train/elastic/view_driver.h"

#include <fmt/format.h>

#include "cohort/base/error.h"
#include "cohort/train/elastic/interruptions.h"

namespace cohort::elastic {

ViewDriver::ViewDriver(membership::ElasticMembership& membership, DriverOptions options)
    : membership_(membership), options_(options) {}

Deadline ViewDriver::deadline() const {
  return options_.patience == std::chrono::milliseconds::max() ? Deadline::never()
                                                               : Deadline::after(options_.patience);
}

void ViewDriver::run(ViewBody& body) {
  std::string broke;
  while (!train_in_view(body, broke)) {
    body.end_view(broke);
    membership_.change(body.commits(), broke, deadline());
  }
}

// True: training is over on all members. False: the view is; `broke` says why, or is empty.
bool ViewDriver::train_in_view(ViewBody& body, std::string& broke) {
  broke.clear();
  try {
    body.begin_view();
    return body.train() && membership_.agent().finish(body.commits(), deadline());
  } catch (const MembersChange&) {
    return false;
  } catch (const Error& error) {
    if (!is_peer_loss(error)) throw;
    broke = error.what();
  }
  body.roll_back();
  expect_progress(body.commits(), broke);
  return false;
}

// The same members that fail again and again have a reason that no change of members mends.
void ViewDriver::expect_progress(std::int64_t commits, const std::string& broke) {
  std::set<std::string> members;
  for (const membership::ViewMember& member : membership_.view().members)
    members.insert(member.info.id());
  fruitless_ = commits == failing_commits_ && members == failing_members_ ? fruitless_ + 1 : 0;
  failing_commits_ = commits;
  failing_members_ = std::move(members);
  if (fruitless_ < options_.most_fruitless) return;
  throw Error(fmt::format("the same {} workers failed {} times in a row without a commit: {}",
                          failing_members_.size(), fruitless_ + 1, broke),
              {.advice = "Look at the error: it is the program's, not that of a lost worker."});
}

}  // namespace cohort::elastic
