#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cohort/ps/wire/messages.h"

namespace cohort::ps {

// The rows of numbers (loss, samples, ...) that workers give at the end of each step, summed, and
// their requests to end the training: a round of it, all of whose later answers say so.
//
// whole: a step's answer has the sum over all shards in their order, the same bits for all workers,
// and goes out when every worker's rows of that step are there. Otherwise each answer goes out at
// once with the sum of everything so far. A row is counted once however often it is sent. After a
// server's restart the rows of earlier steps are unknown: a step that some workers ended before and
// will not end again is answered without `whole`.
//
// Pure; confined to one thread. Failure: ProtocolError for rows that do not fit.
class StepTally {
 public:
  using Answers = std::vector<std::pair<int, StepDone>>;  // to which worker

  StepTally(bool whole, int workers, int shards);

  Answers end(int worker, StepEnd end);
  // That worker has gone on to this sequence: it will end no earlier step.
  Answers begin(int worker, std::uint64_t sequence);

  bool waits(int worker) const { return of(worker).waiting; }

 private:
  struct Worker {
    std::uint64_t sequence = 0;  // of its rows
    std::uint32_t round = 0;     // the same's
    std::vector<std::vector<double>> rows;
    bool waiting = false;             // for an answer to them
    std::uint64_t past = 0;           // no end of this sequence or an earlier one will come
    std::uint64_t last_answered = 0;  // so that a repeated end is answered as the first was
    StepDone last;
  };
  const Worker& of(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Answers settle(std::uint64_t sequence);
  std::string stop_of(std::uint32_t round) const;

  bool whole_;
  int shards_;
  std::vector<Worker> workers_;
  std::vector<double> total_;                   // not whole: of everything so far
  std::map<std::uint32_t, std::string> stops_;  // by round
};

}  // namespace cohort::ps
