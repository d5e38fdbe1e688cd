#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cohort::parallel {

// Elements of one parameter, as they lie in memory: [from, from + count).
struct Slice {
  std::size_t from = 0;
  std::size_t count = 0;
  bool operator==(const Slice&) const = default;
};

struct ParameterSize {
  std::size_t elements = 0;
  std::size_t element_bytes = 4;
};

// Which rank owns which elements of which parameter. Every element has one owner.
//
// A large parameter is cut into one slice a rank, of the same size but for the last, which has the
// rest (fewer than kUnit * ranks elements more). Borders are multiples of kUnit elements from the
// parameter's start: whatever the width of the processor's vectors, an elementwise operation on the
// slices then does with every element what it does on the whole parameter, so that it gives the
// same bits. A parameter below kLeastCut bytes stays whole, and belongs to the rank that has the
// least so far. The same on all ranks. A value; immutable once made.
class Partition {
 public:
  static constexpr std::size_t kUnit = 64;  // two 512-bit vectors of the smallest type, f16
  static constexpr std::size_t kLeastCut = 64 << 10;

  Partition(std::span<const ParameterSize> parameters, int ranks);

  std::size_t parameters() const { return slices_.size(); }
  int ranks() const { return ranks_; }
  bool is_cut(std::size_t parameter) const { return slices_[parameter].owner < 0; }
  int owner(std::size_t parameter) const { return slices_[parameter].owner; }  // of a whole one
  Slice slice(std::size_t parameter, int rank) const;
  std::size_t elements(std::size_t parameter) const { return slices_[parameter].elements; }
  // By rank, as all_gather_v takes them.
  std::vector<std::size_t> counts(std::size_t parameter) const;

  static bool is_cut(const ParameterSize& parameter, int ranks);

 private:
  struct Cut {
    std::size_t elements = 0;
    std::size_t each = 0;  // of every rank but the last
    int owner = -1;        // of the whole
  };
  int ranks_;
  std::vector<Cut> slices_;
};

}  // namespace cohort::parallel
