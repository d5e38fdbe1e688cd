#pragma once

#include <string>
#include <vector>

#include "cohort/collective/group.h"

namespace cohort::parallel {

// Every rank's text, in rank order. Collective over `group`.
std::vector<std::string> gather_texts(collective::Group& group, const std::string& mine,
                                      collective::CallOptions options = {});

// The root's text, on every rank. Collective over `group`.
std::string broadcast_text(collective::Group& group, const std::string& mine, int root,
                           collective::CallOptions options = {});

}  // namespace cohort::parallel
