// Tasks as the grid shows them: order, counts, and which fall behind.
import type { Task } from '../api/types';
import type { TaskInfo } from './task_usage';

const kGone = ['failed', 'lost', 'exited', 'stopped', 'killed', 'succeeded', 'ended', 'left'];

export function is_live(task: Task): boolean {
  return !kGone.includes(task.state);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/**
 * Names of live tasks that fall behind, with a sentence each: by step, where steps are known (more than 2% and 2 steps
 * behind the median); else by CPU, where the others are busy and this one uses less than a third of the median.
 * Tasks are compared with those of their own type: a parameter server has no worker's load.
 */
export function slow_tasks(tasks: readonly TaskInfo[]): Map<string, string> {
  const slow = new Map<string, string>();
  const groups = new Map<string, TaskInfo[]>();
  for (const task of tasks.filter(is_live)) {
    const type = task.name.split(':')[0] ?? '';
    groups.set(type, [...(groups.get(type) ?? []), task]);
  }
  for (const group of groups.values()) {
    if (group.length < 3) continue;
    // A worker that has just joined is at step 0 until it has the others' state: it is not slow.
    const with_step = group.filter((task) => typeof task.step === 'number' && task.step > 0);
    if (with_step.length >= 3) {
      const middle = median(with_step.map((task) => task.step ?? 0));
      for (const task of with_step) {
        const behind = middle - (task.step ?? 0);
        if (behind > Math.max(2, middle * 0.02)) slow.set(task.name, `${Math.round(behind)} steps behind`);
      }
      continue;
    }
    const with_cpu = group.filter((task) => typeof task.cpu === 'number');
    const middle = median(with_cpu.map((task) => task.cpu ?? 0));
    if (with_cpu.length < 3 || middle < 0.2) continue;
    for (const task of with_cpu) if ((task.cpu ?? 0) < middle / 3) slow.set(task.name, 'uses far less CPU than the others');
  }
  return slow;
}

/** Names of tasks that were started again since `before` (name -> restarts); those seen for the first time are not among them. */
export function restarted_tasks(before: ReadonlyMap<string, number>, tasks: readonly Task[]): string[] {
  return tasks.filter((task) => task.restarts > (before.get(task.name) ?? task.restarts)).map((task) => task.name);
}

/** "2 running, 1 failed", the most frequent first. */
export function state_counts(tasks: readonly Task[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const task of tasks) counts.set(task.state, (counts.get(task.state) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function index_of(name: string): number {
  return Number(name.split(':')[1] ?? 0);
}

/** chief, worker, evaluator, ps ... as the service gives the types, by number within each: worker:10 behind worker:9. */
export function sorted_tasks<T extends Task>(tasks: readonly T[]): T[] {
  const types = [...new Set(tasks.map((task) => task.name.split(':')[0] ?? ''))];
  const type_of = (task: Task): number => types.indexOf(task.name.split(':')[0] ?? '');
  return [...tasks].sort((a, b) => type_of(a) - type_of(b) || index_of(a.name) - index_of(b.name));
}
