#pragma once

#include "cohort/collective/reduction/shards.h"

namespace cohort::parallel {

// Which of a rank's own shards is under way: begin and end for each, ascending, then the step's
// end. Throws InvalidInput, with what was called and what was expected, for any other order.
class ShardTurns {
 public:
  ShardTurns(int rank, collective::ShardRange own) : rank_(rank), own_(own) {}

  const collective::ShardRange& own() const { return own_; }
  bool in_shard() const { return in_shard_; }
  int done() const { return done_; }                        // own shards of this step
  int shard() const { return own_.first + done_; }          // the one under way, or the next
  bool is_last() const { return done_ + 1 == own_.count; }  // the one under way, or the next

  void check_begin(int shard) const;  // what begin() checks
  void begin() { in_shard_ = true; }
  void check_end() const;
  void end();
  void discard() { in_shard_ = false; }  // it is to be begun again
  void begin_step_again() {
    in_shard_ = false;
    done_ = 0;
  }
  void finish_step();

 private:
  int rank_;
  collective::ShardRange own_;
  int done_ = 0;
  bool in_shard_ = false;
};

}  // namespace cohort::parallel
