#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/launch/ending/task_record.h"

namespace cohort::launch {

// The task that started it all. `failures`, in order of their ends, are the tasks that failed
// before Cohort asked a task to stop; not empty. `all` are the attempt's tasks.
//
// A task that failed for want of another names that one in its last word (last_word.h): from the
// earliest such task the way leads to the one that lost no other, even when that one ended with exit
// code 0, too early. Else, where a task spoke of an error of its own, the earliest of those that
// did and those that a signal ended; where none did, the earliest whose last lines do not speak of
// a lost peer.
TaskRecord choose_root_cause(const std::vector<TaskRecord>& failures,
                             const std::vector<TaskRecord>& all);

// True when the task said that it lost another, or, where it said nothing, its last lines speak of
// a connection or a group that another one ended.
bool looks_like_a_lost_peer(const TaskRecord& task);

// The task that this one lost, as it said itself; nothing when it said none.
std::optional<cluster::TaskId> lost_peer(const TaskRecord& task);

// "was killed by signal 9 (SIGKILL) after 12.1 s, out of memory"; "ended with exit code 0 after 3.1
// s while worker/0 waited for it in all_reduce #3". Of a task that did not end well.
std::string how_it_ended(const TaskRecord& task);

// One line: "worker/1 on node7 (pid 4711) was killed by signal 9 (SIGKILL) after 12.1 s: <last
// words>".
std::string summary_line(const TaskRecord& cause);

// What the person can do next.
std::string advice(const TaskRecord& cause);

// The whole report. Its last line is summary_line(), so that the last line on the screen is the
// root cause. `all` are the attempt's tasks, the cause included.
std::string root_cause_report(const TaskRecord& cause, const std::vector<TaskRecord>& all);

}  // namespace cohort::launch
