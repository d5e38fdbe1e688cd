#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/parallel/sharding/shard.h"

namespace cohort::parallel {

// How a job's workers are arranged: in named dimensions, whose sizes multiplied are the number of
// workers. Along `data` workers see different samples and hold the same state; along `shard` they
// see different samples, too, and divide what they hold. A worker's rank counts through the last
// dimension first. A value; immutable once made. InvalidInput for a size below 1 or a name twice.
class Mesh {
 public:
  struct Dimension {
    std::string name;
    int size = 1;
  };
  explicit Mesh(std::vector<Dimension> dimensions);
  // All workers along `shard` where something is divided, else along `data`.
  static Mesh of_workers(int workers, Shard shard);

  int workers() const;
  int size(std::string_view dimension) const;  // 1 where the mesh has no such dimension
  // The ranks that differ from `rank` in this dimension alone, and itself; ascending.
  std::vector<int> line(std::string_view dimension, int rank) const;

 private:
  std::vector<Dimension> dimensions_;
};

}  // namespace cohort::parallel
