#pragma once

#include <string>
#include <vector>

#include "cohort/launch/task_record.h"

namespace cohort::launch {

// The task that started it all. `failures`, in order of their ends, are the tasks that failed
// before Cohort asked anybody to stop; not empty. When a task's last words say that it merely lost
// its peer, a later failure with words of its own goes before it.
const TaskRecord& choose_root_cause(const std::vector<TaskRecord>& failures);

// True when the last lines speak of a connection that the other side ended.
bool looks_like_a_lost_peer(const TaskRecord& task);

// "was killed by signal 9 (SIGKILL) after 12.1 s, out of memory". Of a task that did not end well.
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
