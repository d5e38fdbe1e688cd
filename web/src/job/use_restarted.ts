import { useEffect, useRef, useState } from 'preact/hooks';
import type { Task } from '../api/types';
import { restarted_tasks } from './task_rules';

const kShownMs = 8000;

/**
 * Tasks that were started again a moment ago. A worker may be killed and back within a second, between two readings: its
 * tile goes dark and comes back slowly, so that it is seen.
 */
export function useRestarted(tasks: readonly Task[]): ReadonlySet<string> {
  const before = useRef<ReadonlyMap<string, number>>(new Map());
  const [shown, set_shown] = useState<ReadonlySet<string>>(new Set());
  const timers = useRef(new Set<number>());

  useEffect(() => {
    const fresh = restarted_tasks(before.current, tasks);
    before.current = new Map(tasks.map((task) => [task.name, task.restarts]));
    if (fresh.length === 0) return;
    set_shown((old) => new Set([...old, ...fresh]));
    const timer = window.setTimeout(() => {
      timers.current.delete(timer);
      set_shown((old) => new Set([...old].filter((name) => !fresh.includes(name))));
    }, kShownMs);
    timers.current.add(timer);
  }, [tasks]);

  useEffect(() => () => timers.current.forEach((timer) => clearTimeout(timer)), []);
  return shown;
}
