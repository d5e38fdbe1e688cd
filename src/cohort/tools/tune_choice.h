#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cohort/collective/native/tuning.h"

namespace cohort::tools {

// What was measured for one number of ranks or hosts. `times` are seconds, one for each algorithm,
// in the order of the field that they decide; nothing else is known of them.
struct Measurement {
  std::size_t bytes = 0;
  std::vector<double> times;
};

// Up to which size the first algorithm should be used instead of the second: the size up to which
// the product of all ratios of their times is best, so that one stray measurement moves nothing. 0:
// never. `sizes` ascend. A cut that is not worth kMargin more than `usual` at the sizes that it
// moves, on average, is noise: then `usual` stays.
inline constexpr double kMargin = 0.05;
std::size_t best_cut(const std::vector<std::size_t>& sizes, const std::vector<double>& first,
                     const std::vector<double>& second, std::size_t usual);

// Enter what was found at `count` ranks or hosts, in ascending order of `count`.
//   inside:    {inlined, direct}
//   between:   {exchange_all, recursive_doubling, reduce_scatter}
//   broadcast: {flat, binomial}
class TableBuilder {
 public:
  TableBuilder();
  void inside(int count, const std::vector<Measurement>& measured);
  void between(int count, const std::vector<Measurement>& measured);
  void broadcast(int count, const std::vector<Measurement>& measured);

  // So far, without what was not measured.
  const collective::TuningTable& measured() const { return table_; }
  // With the defaults for more ranks or hosts than `most`, the largest number measured.
  collective::TuningTable finish(int most) const;

 private:
  collective::TuningTable table_;
};

}  // namespace cohort::tools
