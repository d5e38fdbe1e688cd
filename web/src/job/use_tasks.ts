import { useMemo, useRef } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import { has_ended, type JobDetail, type Task } from '../api/types';
import { usePolled } from '../ui/use_polled';
import { with_usage, type TaskInfo, type UsageReading } from './task_usage';

const kEveryMs = 2000;

/** The job's tasks with what they use, read again every moment while the job runs. */
export function useTasks(job: JobDetail): TaskInfo[] {
  const before = useRef<UsageReading | null>(null);
  const every = has_ended(job.state) ? 0 : kEveryMs;
  const { value: now } = usePolled(`${job.id} ${job.attempt}`, every, async (signal): Promise<{ old: UsageReading | null; now: UsageReading }> => {
    const answer = await get_json<{ tasks: Task[] }>(job_path(job.id, 'tasks'), { usage: 1 }, signal);
    const reading = { time: Date.now(), tasks: answer.tasks };
    const old = before.current;
    before.current = reading;
    return { old, now: reading };
  });
  return useMemo(() => with_usage(job.tasks, now?.old ?? null, now?.now ?? null), [job.tasks, now]);
}
