#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cohort/base/deadline.h"
#include "cohort/ps/client/client_types.h"
#include "cohort/ps/model/model_spec.h"
#include "cohort/ps/model/placement.h"

namespace cohort::ps {

// A worker's side of all parameter servers of its job.
//
//   client->begin(spec, initial, deadline);             // the chief's values, or what is there
//   client->read(runs, 0, deadline);
//   for each step:  client->begin_step({...});
//                   client->push(block, partials);      // as backward makes them
//                   client->finish_step(...);           // and the parameters are the next step's
//   client->leave(deadline);
//
// A push travels, is applied and its values come back while backward goes on. What is pushed is
// kept until its update is acknowledged: when a server goes away the client connects again, with
// growing pauses, and sends again what that server does not have. A server's restart is a delay.
//
// Threads: one of its own for the sockets; begin_step, push and finish_step from one thread at a
// time (push may be another than the others'); rows calls from any.
// Ownership: memory given to push() may be used again when it returns; that given to finish_step()
// and read() is written by the call itself, on the caller's thread.
// Failure: TimeoutError at a deadline (it names the servers that are missing or what they wait
// for), AuthError, InvalidInput for a model that is not the job's, Error with the server's own
// words for what a server refuses. After a failure it is only good to destroy.
class Client {
 public:
  // Returns when every server has proven itself.
  static std::unique_ptr<Client> connect(ClientOptions options, Deadline deadline);
  ~Client();  // without leave(): as if this worker had died

  // Whether the servers have a model already (this worker was started anew, or is not the first).
  // Of the chief; others wait in begin() until they have.
  bool servers_have_model() const;

  // Chief: gives the servers `spec` and `initial`, unless they have a model. All workers: compares
  // `spec` with theirs. Returns how many steps of this worker every server has: it goes on with the
  // next.
  std::uint64_t begin(const ModelSpec& spec, const InitialState* initial, Deadline deadline);

  std::span<const Slice> slices() const;

  // The values as they are now, each slice of one version, once every expected worker has finished
  // `clock` steps (0: at once). Not between begin_step and finish_step.
  void read(std::span<const BlockRun> runs, std::uint64_t clock, Deadline deadline);
  // What the step after `finished` began with, for a worker that was started anew in synchronous
  // training: slices which have that step already are read as they were before it.
  void read_after(std::span<const BlockRun> runs, std::uint64_t finished, Deadline deadline);

  void begin_step(const StepStart& start);
  // One array of the block's elements for each node of this worker's shards (ShardPlan).
  void push(int block, std::span<const std::byte* const> partials);
  // Waits until every slice is ready for the next step and copies the values to `runs`.
  StepOutcome finish_step(const StepEnd& end, std::span<const BlockRun> runs, Deadline deadline);

  // Rows of an embedding table for the step with this sequence: values has dimension floats a key.
  void pull_rows(int table, std::span<const std::uint64_t> keys, std::uint64_t sequence,
                 float* values, Deadline deadline);
  // This step's gradients of the table, duplicates summed by the caller; between begin_step and
  // finish_step, once a table and step (an empty one is sent where there was no call).
  void push_rows(int table, std::span<const std::uint64_t> keys, std::span<const float> gradients);

  // Everything, values and slots, as of one instant in which every push is wholly in or wholly out;
  // training of the others goes on but for the moment of the copy.
  void snapshot(const StateSink& sink, Deadline deadline);

  // One JSON text a server: pushes, drops, staleness histogram, bytes, times (docs/formats.md).
  std::vector<std::string> stats(Deadline deadline);

  // How often a connection was lost and found again.
  std::uint64_t reconnects() const;

  void leave(Deadline deadline);

 private:
  struct Parts;
  explicit Client(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace cohort::ps
