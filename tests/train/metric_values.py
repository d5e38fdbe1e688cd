#!/usr/bin/env python3
"""What scikit-learn makes of fixed data, for src/cohort/train/metrics/metrics_test.cpp.

usage: tests/train/metric_values.py          writes src/cohort/train/metrics/expected_values_test.h
       tests/train/metric_values.py --check  fails where that file differs from what would be written

Both sides make the data by the same formula, in whole numbers (mixed() here and in the test), so that
no bit differs. With --check it is skipped (77) where scikit-learn is not installed:
pip install scikit-learn==1.9.1.
"""

import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "src/cohort/train/metrics/expected_values_test.h"
SAMPLES, CLASSES, LABELS = 500, 4, 3


def mixed(i):
    """A number of 24 bits that looks random."""
    x = (i * 2654435761 + 40503) % 2**32
    x ^= x >> 15
    x = x * 2246822519 % 2**32
    x ^= x >> 13
    return x >> 8


def unit(i):
    return mixed(i) / 2**24


def data():
    """Targets (of 4 classes one is never a target), scores of classes, probabilities of class 1."""
    targets = [mixed(i) % LABELS for i in range(SAMPLES)]
    scores = [[unit(1000 + CLASSES * i + c) + (0.25 if c == t else 0.0) for c in range(CLASSES)]
              for i, t in enumerate(targets)]
    binary = [t % 2 for t in targets]
    chances = [0.75 * unit(9000 + i) + 0.25 * b for i, b in enumerate(binary)]
    return targets, scores, binary, chances


def values():
    import numpy
    from sklearn import metrics

    targets, scores, binary, chances = data()
    scores = numpy.array(scores)
    guesses = scores.argmax(1)
    chances = numpy.array(chances)
    guessed = (chances > 0.5).astype(int)
    found = {
        "accuracy": metrics.accuracy_score(targets, guesses),
        "top_2_accuracy": metrics.top_k_accuracy_score(targets, scores, k=2, labels=range(CLASSES)),
        "binary_accuracy": metrics.accuracy_score(binary, guessed),
    }
    for name, score in (("f1", metrics.f1_score), ("precision", metrics.precision_score),
                        ("recall", metrics.recall_score)):
        found[f"{name}_binary"] = score(binary, guessed, zero_division=0)
        for average in ("micro", "macro", "weighted"):
            found[f"{name}_{average}"] = score(targets, guesses, average=average, zero_division=0)
        for label, value in enumerate(score(targets, guesses, average=None, zero_division=0,
                                            labels=range(CLASSES))):
            found[f"{name}_{label}"] = value
    rounded = numpy.floor(chances.astype(numpy.float32) * numpy.float32(1000))
    found["auc"] = metrics.roc_auc_score(binary, chances)
    found["auc_in_1000_bins"] = metrics.roc_auc_score(binary, rounded)
    # One against the rest, each class by itself, of scores that the metric takes as probabilities.
    found["auc_one_against_the_rest"] = numpy.mean(
        [metrics.roc_auc_score([t == c for t in targets],
                               numpy.floor(scores[:, c].astype(numpy.float32) / numpy.float32(2)
                                           * numpy.float32(64)))
         for c in range(LABELS)])
    found["mae"] = metrics.mean_absolute_error(binary, chances)
    found["mse"] = metrics.mean_squared_error(binary, chances)
    found["rmse"] = math.sqrt(metrics.mean_squared_error(binary, chances))
    matrix = metrics.confusion_matrix(targets, guesses, labels=range(CLASSES))
    found["log_loss"] = metrics.log_loss(binary, chances)
    found["perplexity"] = math.exp(found["log_loss"])
    return found, matrix


def text():
    found, matrix = values()
    rows = "\n".join(f'      {{"{name}", {float(value)!r}}},' for name, value in found.items())
    cells = ", ".join(str(cell) for cell in matrix.flatten())
    return f"""#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Written by tests/train/metric_values.py with scikit-learn: do not edit.
// clang-format off
namespace cohort::train::testing {{

inline const std::map<std::string, double>& expected_values() {{
  static const std::map<std::string, double> values{{
{rows}
  }};
  return values;
}}

inline const std::vector<std::int64_t>& expected_confusion() {{
  static const std::vector<std::int64_t> cells{{
      {cells}}};
  return cells;
}}

}}  // namespace cohort::train::testing
// clang-format on
"""


def main():
    try:
        import sklearn  # noqa: F401
    except ImportError:
        print("skipped: scikit-learn is not installed (pip install scikit-learn==1.9.1)")
        return 77
    wanted = text()
    if "--check" not in sys.argv[1:]:
        HEADER.write_text(wanted)
        return 0
    if HEADER.read_text() == wanted:
        return 0
    print(f"{HEADER.relative_to(ROOT)} is not what scikit-learn gives: run tests/train/metric_values.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
