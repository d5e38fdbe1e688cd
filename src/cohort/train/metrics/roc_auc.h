#pragma once

#include <cstdint>

#include "cohort/train/metrics/guesses.h"
#include "cohort/train/model/metric.h"

namespace cohort::train {

struct AucOptions {
  std::int64_t classes = 2;
  std::int64_t bins = 1000;
  // Outputs are logits, which a sigmoid (one score a target) or a softmax makes probabilities;
  // false: they are probabilities.
  bool logits = true;
  std::int64_t ignored = kIgnoredTarget;
};

// The area under the curve of true against false positives, "auc": of class 1 where there are two
// classes, else the mean over the classes, each against the rest.
//
// Resolution: probabilities are counted in `bins` bins of equal width, in which targets of both kinds
// count as ties, half right. The value is exactly that of probabilities rounded down to multiples
// of 1 / bins, and differs from the exact one by at most half the share of the pairs (one target of
// the class, one not) that are in one bin. State: 2 * bins counts, times the classes if more than
// two. A class that is every target, or none, has no curve: 0, and it is left out of the mean.
// Failure: InvalidInput, as classification.h.
Metric roc_auc(const AucOptions& options = {});

}  // namespace cohort::train
