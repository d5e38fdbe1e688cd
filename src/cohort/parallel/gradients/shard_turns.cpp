#include "cohort/parallel/gradients/shard_turns.h"

#include "cohort/base/error.h"

namespace cohort::parallel {

void ShardTurns::check_begin(int shard) const {
  if (in_shard_ || shard != this->shard() || done_ == own_.count)
    throw InvalidInput(
        fmt::format(
            "begin_shard({}) out of turn: rank {} owns {} shards from {} on, and has done {}",
            shard, rank_, own_.count, own_.first, done_),
        {.advice = "Call begin_shard and end_shard for each own shard, ascending, then finish."});
}

void ShardTurns::check_end() const {
  if (!in_shard_)
    throw InvalidInput("end_shard() without begin_shard()",
                       {.advice = "Call begin_shard and end_shard for each own shard."});
}

void ShardTurns::end() {
  in_shard_ = false;
  ++done_;
}

void ShardTurns::finish_step() {
  if (in_shard_ || done_ != own_.count)
    throw InvalidInput(fmt::format("finish() after {} of {} own shards", done_, own_.count),
                       {.advice = "Call begin_shard and end_shard for each own shard first."});
  done_ = 0;
}

}  // namespace cohort::parallel
