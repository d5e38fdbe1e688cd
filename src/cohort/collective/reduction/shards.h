#pragma once

#include <span>
#include <vector>

#include "cohort/collective/reduction/reduce_tree.h"
#include "cohort/collective/reduction/tree.h"

namespace cohort::collective {

// A job's work is cut into virtual shards, whose number does not depend on the number of ranks
// (docs/algorithms.md, "One order of addition"). Values; immutable once made.
struct ShardRange {
  int first = 0;
  int count = 0;
};

// The run of `shards` that `rank` of `ranks` owns: contiguous, ascending with the rank, sizes that
// differ by at most one. Throws InvalidInput when there are fewer shards than ranks.
ShardRange shards_of(int rank, int ranks, int shards);

// Every rank's run: `given` (runs[r] is rank r's), or as shards_of says where it is empty. Given
// runs ascend with the rank and cover all shards; some may be empty, for ranks that take part
// without work of their own. Throws InvalidInput when they do not.
std::vector<ShardRange> runs_of(int ranks, int shards, std::vector<ShardRange> given = {});

// The first rank whose run is not empty; 0 where `runs` says nothing.
int first_owner(std::span<const ShardRange> runs);

// What one rank does with the values of each of its shards as they come, so that it keeps only as
// many partials as the tree needs: a stack, whose top is combined with the new shard as soon as
// both belong to one node.
class ShardPlan {
 public:
  struct Step {
    // What is combined: the top inputs.size() - 1 of the stack, then the shard itself. One input:
    // the shard stands for itself.
    std::vector<TreeInput> inputs;
    Subtree node;    // the result
    int final = -1;  // its place in nodes(), or -1: it goes back onto the stack
  };

  ShardPlan(int shards, ShardRange own);

  int shards() const { return shards_; }
  const std::vector<Step>& steps() const { return steps_; }     // one for each own shard
  const std::vector<Subtree>& nodes() const { return nodes_; }  // what is left after the last

 private:
  int shards_;
  std::vector<Step> steps_;
  std::vector<Subtree> nodes_;
};

}  // namespace cohort::collective
