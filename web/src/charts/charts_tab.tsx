import { useEffect, useState } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import type { JobDetail } from '../api/types';
import { pick_job } from '../compare/job_picker';
import { set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { tell_error } from '../ui/toast';
import type { Run } from './board';
import { ChartBoard } from './chart_board';

const kMostRuns = 8;

export function run_of(job: JobDetail): Run {
  const millis = (time: string | null): number => (time ? Date.parse(time) : 0);
  return { id: job.id, name: job.name || job.id, state: job.state, started: millis(job.started), ended: millis(job.ended) };
}

/** The charts of a job; others, named in the address, are drawn over them. */
export function ChartsTab({ job }: { job: JobDetail }) {
  const { query } = useAddress();
  const ids = query.getAll('with').slice(0, kMostRuns - 1);
  const others = useRuns(ids);
  const add = async (): Promise<void> => {
    const picked = await pick_job([job.id, ...ids]);
    if (picked) set_query({ with: [...ids, picked] });
  };
  return (
    <ChartBoard
      runs={[run_of(job), ...others]}
      tools={
        <>
          {ids.length < kMostRuns - 1 ? (
            <Button kind="quiet" onClick={() => void add()}>
              + Another run
            </Button>
          ) : null}
          {ids.length > 0 ? (
            <Button kind="quiet" onClick={() => set_query({ with: null })}>
              Only this run
            </Button>
          ) : null}
        </>
      }
    />
  );
}

export function useRuns(ids: readonly string[]): Run[] {
  const [runs, set_runs] = useState<Run[]>([]);
  const key = ids.join();
  useEffect(() => {
    const abort = new AbortController();
    Promise.all(ids.map((id) => get_json<JobDetail>(job_path(id), {}, abort.signal))).then(
      (jobs) => set_runs(jobs.map(run_of)),
      (error) => abort.signal.aborted || tell_error(error),
    );
    return () => abort.abort();
  }, [key]);
  return ids.length === 0 ? [] : runs;
}
