// One job, live: its description and state are read again whenever the service tells an event of it, and every few
// seconds while it runs, because progress and the tasks' use of the machine are no events.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import { EventStream } from '../api/stream';
import { has_ended, type JobDetail } from '../api/types';

const kRunningMs = 2000;
const kWaitingMs = 5000;
const kEndedMs = 30_000; // It may be resumed from elsewhere.
const kGatherMs = 150;

export interface LiveJob {
  job: JobDetail | null;
  error: unknown;
  /** Counts events: what depends on them is read again when it changes. */
  events: number;
  refresh: () => void;
}

/**
 * `follow`: take the stream of the job's events, too. A browser has six connections to a service for all its windows, so a
 * window holds one stream: a tab with a stream of its own goes without this one, and sees changes with the next reading.
 */
export function useJob(id: string, follow: boolean): LiveJob {
  const [job, set_job] = useState<JobDetail | null>(null);
  const [error, set_error] = useState<unknown>(null);
  const [events, set_events] = useState(0);
  const read_in = useRef<(ms: number) => void>(() => undefined);

  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
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
        plan(has_ended(next.state) ? kEndedMs : next.state === 'queued' ? kWaitingMs : kRunningMs);
      } catch (failure) {
        if (stop.signal.aborted) return;
        set_error(failure);
        plan(kWaitingMs);
      }
    };

    set_job(null);
    set_error(null);
    read_in.current = plan;
    void load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id]);

  const job_id = job?.id ?? '';
  useEffect(() => {
    if (job_id === '' || !follow) return;
    const stream = new EventStream({
      path: job_path(job_id, 'events'),
      on_event: (event) => {
        if (event.event !== 'job') return;
        set_events((count) => count + 1);
        read_in.current(kGatherMs);
      },
    });
    return () => stream.close();
  }, [job_id, follow]);

  return { job, error, events, refresh: () => read_in.current(0) };
}
