#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cohort/jobspec/job_spec.h"

namespace cohort::jobspec {

// Cores, memory and GPUs of a machine, an instance or a slot.
struct Size {
  double cores = 1;
  std::uint64_t memory_bytes = 0;
  int gpus = 0;

  bool operator==(const Size&) const = default;
};

// Which Python and frameworks the program gets.
struct RuntimeEnvironment {
  enum class Kind { at_hand, venv, image };
  Kind kind = Kind::at_hand;
  std::string place;    // the folder of the virtual environment, or the image; "" at hand
  std::string version;  // the framework's that is there; "" when unknown
};

// A job with every choice made: what an engine starts. A value; JSON on disk (attempt.json).
struct ResolvedJob {
  JobSpec spec;  // with name and engine filled
  int instances = 1;
  Size instance;                       // what the queue reserves for each instance
  int processes = 1;                   // tasks that train
  bool colocated_servers = false;      // a parameter server beside each worker (rule U4)
  std::vector<std::string> run_words;  // options of `cohort run`, without output and program
  std::vector<std::string>
      program;  // program, arguments and hyperparameters; relative to the source
  std::vector<std::string>
      mpirun_words;  // options of mpirun, -np first, without host file and program; mpi only
  std::map<std::string, std::string>
      env;  // for every task; what differs by task: task_environment.h
  RuntimeEnvironment runtime;
  std::vector<std::string> notes;  // sentences for the person: what was asked for and not to be had
};

}  // namespace cohort::jobspec
