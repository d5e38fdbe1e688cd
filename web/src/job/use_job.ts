// One job, live: its description and state are read again whenever the service tells an event of it, and every few
// seconds while it runs, because progress and the tasks' use of the machine are no events.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import { EventStream } from '../api/stream';
import { has_ended, type JobDetail, type JobEvent } from '../api/types';

const kRunningMs = 2000;
const kWaitingMs = 5000;
const kGatherMs = 150;

export interface LiveJob {
  job: JobDetail | null;
  error: unknown;
  /** Counts events: what depends on them is read again when it changes. */
  events: number;
  refresh: () => void;
}

export function useJob(id: string): LiveJob {
  const [job, set_job] = useState<JobDetail | null>(null);
  const [error, set_error] = useState<unknown>(null);
  const [events, set_events] = useState(0);
  const refresh = useRef<() => void>(() => undefined);

  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let stream: EventStream | null = null;

    const plan = (ms: number): void => {
      clearTimeout(timer);
      if (!stop.signal.aborted) timer = window.setTimeout(() => void load(), ms);
    };
    const load = async (): Promise<void> => {
      clearTimeout(timer);
      if (document.hidden) return plan(kRunningMs);
      try {
        const next = await get_json<JobDetail>(job_path(id), {}, stop.signal);
        if (stop.signal.aborted) return;
        set_job(next);
        set_error(null);
        stream ??= follow(next.id);
        if (!has_ended(next.state)) plan(next.state === 'queued' ? kWaitingMs : kRunningMs);
      } catch (failure) {
        if (stop.signal.aborted) return;
        set_error(failure);
        plan(kWaitingMs);
      }
    };
    const follow = (job_id: string): EventStream =>
      new EventStream({
        path: job_path(job_id, 'events'),
        on_event: (event) => {
          if (event.event !== 'job') return;
          const told = JSON.parse(event.data) as JobEvent;
          set_events((count) => count + 1);
          if (told.kind !== 'submitted') plan(kGatherMs);
        },
      });

    set_job(null);
    set_error(null);
    refresh.current = () => void load();
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
      stream?.close();
    };
  }, [id]);

  return { job, error, events, refresh: () => refresh.current() };
}
