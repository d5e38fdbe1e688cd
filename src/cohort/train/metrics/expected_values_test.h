#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// Written by tests/train/metric_values.py with scikit-learn: do not edit.
// clang-format off
namespace cohort::train::testing {

inline const std::map<std::string, double>& expected_values() {
  static const std::map<std::string, double> values{
      {"accuracy", 0.472},
      {"top_2_accuracy", 0.73},
      {"binary_accuracy", 0.67},
      {"f1_binary", 0.6024096385542169},
      {"f1_micro", 0.472},
      {"f1_macro", 0.38855938693126496},
      {"f1_weighted", 0.5207572142786815},
      {"f1_0", 0.5229681978798587},
      {"f1_1", 0.5470588235294118},
      {"f1_2", 0.4842105263157895},
      {"f1_3", 0.0},
      {"precision_binary", 0.5530973451327433},
      {"precision_micro", 0.472},
      {"precision_macro", 0.4348538903751844},
      {"precision_weighted", 0.5847067398500103},
      {"precision_0", 0.6271186440677966},
      {"precision_1", 0.6158940397350994},
      {"precision_2", 0.49640287769784175},
      {"precision_3", 0.0},
      {"recall_binary", 0.6613756613756614},
      {"recall_micro", 0.472},
      {"recall_macro", 0.353287770068592},
      {"recall_weighted", 0.472},
      {"recall_0", 0.4484848484848485},
      {"recall_1", 0.49206349206349204},
      {"recall_2", 0.4726027397260274},
      {"recall_3", 0.0},
      {"auc", 0.7769951853553139},
      {"auc_in_1000_bins", 0.7769186274009425},
      {"auc_one_against_the_rest", 0.7177374637418046},
      {"mae", 0.376013729095459},
      {"mse", 0.1870480217294995},
      {"rmse", 0.4324904874439431},
      {"log_loss", 0.5383914413630391},
      {"perplexity", 1.713248783386045},
  };
  return values;
}

inline const std::vector<std::int64_t>& expected_confusion() {
  static const std::vector<std::int64_t> cells{
      74, 30, 31, 30, 21, 93, 39, 36, 23, 28, 69, 26, 0, 0, 0, 0};
  return cells;
}

}  // namespace cohort::train::testing
// clang-format on
