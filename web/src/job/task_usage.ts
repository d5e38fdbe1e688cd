// What the tasks use of the machine, out of two readings of GET /v1/jobs/{job}/tasks?usage=1.
import type { Task } from '../api/types';

/** A task with the cores it used between the last two readings; null: not known. */
export interface TaskInfo extends Task {
  cpu: number | null;
}

export interface UsageReading {
  /** In ms since 1970. */
  time: number;
  tasks: readonly Task[];
}

/** Processor seconds per second since `before`; null for a task that was not there, or was started anew, between them. */
function cores_used(task: Task, now: number, before: UsageReading | null): number | null {
  const old = before?.tasks.find((each) => each.name === task.name);
  if (!before || !old || typeof task.cpu_seconds !== 'number' || typeof old.cpu_seconds !== 'number') return null;
  const seconds = (now - before.time) / 1000;
  if (old.pid !== task.pid || seconds <= 0 || task.cpu_seconds < old.cpu_seconds) return null;
  return (task.cpu_seconds - old.cpu_seconds) / seconds;
}

/** The job's tasks with their use, where a reading has them. States are the job's: they are told by events, at once. */
export function with_usage(tasks: readonly Task[], before: UsageReading | null, now: UsageReading | null): TaskInfo[] {
  const known = new Map(now?.tasks.map((task) => [task.name, task]));
  return tasks.map((task) => {
    const used = known.get(task.name);
    return now && used ? { ...used, ...task, cpu: cores_used(used, now.time, before) } : { ...task, cpu: null };
  });
}
