#pragma once

#include <functional>
#include <vector>

#include "cohort/tools/command_line.h"

// The commands of `cohort`, each in the source file of its name.
namespace cohort::tools {

// Starts, watches and ends a job (run_command.h).
Command run_command();
// `cohort status JOB`: what a job does now, or how it ended.
Command status_command();
// `cohort scale JOB N`: makes a running elastic job larger or smaller, and waits until it is.
Command scale_command();
// `cohort resume JOB`: runs a job whose launcher is gone again, with the words that it was asked
// for with, in its folder and under its id; its tasks learn that they go on (COHORT_RESUME).
// Refuses a job that runs, one that succeeded, and one that is not known.
Command resume_command();
// Commands of the service (docs/platform.md); each is a client of its HTTP API.
// `cohort submit`: hands over a job; with --wait its exit code is the job's.
Command submit_command();
// `cohort jobs`: lists them.
Command jobs_command();
// `cohort logs [-f] JOB`: what its tasks wrote and write.
Command logs_command();
// `cohort stop JOB...`: ends them, and waits until they have ended.
Command stop_command();
// `cohort download JOB DIR`: model, output and logs.
Command download_command();
// `cohort delete JOB...`: removes jobs that have ended, with their files, after a question.
Command delete_command();
// `cohort pin JOB...`, `cohort unpin JOB...`: whether retention keeps them.
Command pin_command();
Command unpin_command();
// `cohort events [-f] [JOB]`: what happened to jobs.
Command events_command();
// `cohort top`: a live table of jobs and of what they use.
Command top_command();
// `cohort open [JOB]`: a link that signs a browser in and shows the page, or a job of it.
Command open_command();
// `cohort attach RUN`: shows a run that was started without the service in its page.
Command attach_command();
// `cohort token create|list|remove|rotate`: who may use a shared service.
Command token_command();
// `cohort job check FILE`: is the description right, and what becomes of it on this machine?
Command job_command();
// `cohort ledger verify|show JOB|FILE`. The exit code is 1 when the ledger does not prove that each
// sample of each ended epoch entered exactly one committed update.
Command ledger_command();
// `cohort bench collective`: how fast this machine adds up buffers between N processes. Starts
// itself N times through the launcher; the rank that it then is measures, checks every result, and
// rank 0 prints a table.
Command bench_command();
// `cohort tune`: measures the collective algorithms on this machine with N processes and writes the
// table that COHORT_TUNING=FILE makes jobs use. Hosts are made up: each process counts as one, and
// they talk over TCP on loopback.
Command tune_command();
// `cohort doctor`: checks this machine and says what is wrong and how to mend it. The exit code is
// 1 when something keeps jobs from running.
Command doctor_command();
// `cohort serve`: the service, which takes jobs in, queues and runs them (service/service.h).
Command serve_command();
// `cohort host-task`, which remote shells start (docs/launcher.md): runs the task that comes on
// standard input.
Command host_task_command();
// `cohort attempt FOLDER`, the supervisor of one attempt of a submitted job (engine/local_engine.h).
Command attempt_command();
// `cohort exec-task`, which stands before the program of every task of such a job
// (engine/task_start.h).
Command exec_task_command();
// `cohort pod-task FOLDER`, what each pod of a job on Kubernetes runs (engine/kubernetes/pod_task.h).
Command pod_task_command();
// `cohort completion bash|zsh|fish`: prints a script that completes commands and options, made from
// what the commands declare. `all` gives the commands.
Command completion_command(std::function<std::vector<Command>()> all);

}  // namespace cohort::tools
