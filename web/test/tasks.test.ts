import { describe, expect, it } from 'vitest';
import type { Task } from '../src/api/types';
import { restarted_tasks, slow_tasks, sorted_tasks, state_counts } from '../src/job/task_rules';
import { with_usage, type TaskInfo } from '../src/job/task_usage';

function task(name: string, more: Partial<TaskInfo> = {}): TaskInfo {
  return { name, host: 'h', state: 'running', exit_code: null, restarts: 0, cpu: null, ...more };
}

describe('slow_tasks', () => {
  it('names those behind the median step, and by how much', () => {
    const tasks = [100, 101, 99, 60].map((step, index) => task(`worker:${index}`, { step }));
    expect([...slow_tasks(tasks)]).toEqual([['worker:3', '40 steps behind']]);
  });

  it('does not call a task slow that has ended, or two that only differ', () => {
    const tasks = [100, 101, 99].map((step, index) => task(`worker:${index}`, { step }));
    expect(slow_tasks([...tasks, task('worker:3', { step: 10, state: 'failed' })]).size).toBe(0);
    expect(slow_tasks([task('worker:0', { step: 100 }), task('worker:1', { step: 10 })]).size).toBe(0);
  });

  it('does not call a worker slow that has just joined', () => {
    expect(slow_tasks([100, 101, 99, 0].map((step, index) => task(`worker:${index}`, { step }))).size).toBe(0);
  });

  it('goes by processor time where no step is known, among tasks of one type', () => {
    const workers = [1.9, 2, 2.1, 0.1].map((cpu, index) => task(`worker:${index}`, { cpu }));
    const servers = [0.05, 0.06, 0.05].map((cpu, index) => task(`ps:${index}`, { cpu }));
    expect([...slow_tasks([...workers, ...servers]).keys()]).toEqual(['worker:3']);
  });
});

describe('tasks in the grid', () => {
  it('stand by number within their type', () => {
    const names = ['chief:0', 'worker:10', 'worker:9', 'ps:0'].map((name) => task(name));
    expect(sorted_tasks(names).map((each) => each.name)).toEqual(['chief:0', 'worker:9', 'worker:10', 'ps:0']);
  });

  it('are counted by state', () => {
    expect(state_counts([task('a'), task('b', { state: 'failed' }), task('c')])).toEqual([
      ['running', 2],
      ['failed', 1],
    ]);
  });
});

describe('restarted_tasks', () => {
  it('names those whose count grew, and none that is new', () => {
    const tasks = [task('a', { restarts: 1 }), task('b', { restarts: 2 }), task('c', { restarts: 5 })];
    expect(restarted_tasks(new Map([['a', 1], ['b', 1]]), tasks)).toEqual(['b']);
  });
});

describe('with_usage', () => {
  const plain: Task = { name: 'worker:0', host: 'h', state: 'running', exit_code: null, restarts: 0 };
  const reading = (time: number, cpu_seconds: number, pid = 7) => ({ time, tasks: [{ ...plain, pid, cpu_seconds, memory: 5, step: 3 }] });

  it('divides processor time by the time between two readings', () => {
    const [used] = with_usage([plain], reading(1000, 2), reading(3000, 5));
    expect(used).toMatchObject({ cpu: 1.5, memory: 5, step: 3 });
  });

  it('knows nothing of a process that is new', () => {
    expect(with_usage([plain], reading(1000, 2, 7), reading(3000, 5, 8))[0]?.cpu).toBeNull();
    expect(with_usage([plain], null, reading(3000, 5))[0]?.cpu).toBeNull();
    expect(with_usage([plain], null, null)[0]?.cpu).toBeNull();
  });

  it('shows the state that the job tells, not an older one', () => {
    const [used] = with_usage([{ ...plain, state: 'failed' }], null, reading(1000, 2));
    expect(used?.state).toBe('failed');
  });
});
