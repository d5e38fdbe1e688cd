import { useState } from 'preact/hooks';
import { get_json, job_path, sentence_of } from '../api/client';
import { has_ended, type JobDetail } from '../api/types';
import { ChartBoard } from '../charts/chart_board';
import { run_of } from '../charts/charts_tab';
import { format_duration, format_time, seconds_between } from '../format';
import { job_address, set_query } from '../router';
import { StateBadge } from '../ui/badge';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import { Link } from '../ui/link';
import { useNow } from '../ui/use_now';
import { usePolled } from '../ui/use_polled';
import { compare_weights, differences } from './differences';
import { pick_job } from './job_picker';

const kMostRuns = 8;
const kEveryMs = 3000;

/** Two runs or more beside each other: what was asked for, what came out, how it went. */
export function ComparePage({ jobs }: { jobs: readonly string[] }) {
  const ids = [...new Set(jobs)].slice(0, kMostRuns);
  const [live, set_live] = useState(true);
  const { value, error } = usePolled(ids.join(), live ? kEveryMs : 0, async (signal) => {
    const read = await Promise.all(ids.map((id) => get_json<JobDetail>(job_path(id), {}, signal)));
    set_live(read.some((job) => !has_ended(job.state)));
    return read;
  });
  const add = async (): Promise<void> => {
    const picked = await pick_job(ids);
    if (picked) set_query({ job: [...ids, picked] });
  };
  const more =
    ids.length < kMostRuns ? (
      <Button onClick={() => void add()} kind={ids.length < 2 ? 'primary' : 'plain'}>
        {ids.length === 0 ? 'Choose a run' : 'Add a run'}
      </Button>
    ) : null;
  const current = value && value.length === ids.length ? value : null;
  return (
    <main class="compare">
      <div class="compare-head">
        <h1>Compare</h1>
        {more}
      </div>
      {ids.length === 0 ? <EmptyState title="Which runs? Choose two or more." /> : null}
      {!current && error ? <EmptyState title={sentence_of(error)} /> : null}
      {!current && !error && ids.length > 0 ? <Loading what="the runs" /> : null}
      {current && current.length > 0 ? <Compared jobs={current} ids={ids} /> : null}
    </main>
  );
}

function Compared({ jobs, ids }: { jobs: readonly JobDetail[]; ids: readonly string[] }) {
  const [all, set_all] = useState(false);
  const rows = differences(jobs.map((job) => ({ ...job.spec, name: undefined, engine: job.engine })));
  const shown = rows.filter((row) => all || !row.same);
  const same = rows.filter((row) => row.same).length;
  const weights = compare_weights(jobs.map((job) => job.weights));
  const now = useNow();
  return (
    <>
      {jobs.length > 1 ? <Verdict weights={weights} /> : null}
      <div class="compare-box" tabIndex={0} role="region" aria-label="Runs and what is different between them">
        <table>
          <caption class="off-screen">Runs beside each other</caption>
          <thead>
            <tr>
              <th scope="col">Run</th>
              {jobs.map((job, i) => (
                <th key={job.id} scope="col">
                  <span class={`chart-run chart-run${(i % 8) + 1}`}>
                    <Link href={job_address(job.id)}>{job.name || job.id}</Link>
                    <Button kind="quiet" aria-label={`Leave ${job.name} out`} onClick={() => set_query({ job: ids.filter((_, at) => at !== i) })}>
                      ×
                    </Button>
                  </span>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">State</th>
              {jobs.map((job) => (
                <td key={job.id}>
                  <StateBadge state={job.state} />
                </td>
              ))}
            </tr>
            <tr>
              <th scope="row">Started</th>
              {jobs.map((job) => (
                <td key={job.id} class="number">
                  {job.started ? format_time(job.started) : 'not yet'}
                </td>
              ))}
            </tr>
            <tr>
              <th scope="row">Took</th>
              {jobs.map((job) => (
                <td key={job.id} class="number">
                  {job.started ? format_duration(seconds_between(job.started, job.ended ?? now)) : ''}
                </td>
              ))}
            </tr>
            <tr class={weights === 'different' ? 'compare-different' : ''}>
              <th scope="row">Weights</th>
              {jobs.map((job) => (
                <td key={job.id} class="mono" title={job.weights ?? undefined}>
                  {job.weights ? job.weights.slice(0, 16) : 'not told'}
                </td>
              ))}
            </tr>
            {shown.map((row) => (
              <tr key={row.name} class={row.same ? '' : 'compare-different'}>
                <th scope="row" class="mono">
                  {row.name}
                </th>
                {row.values.map((text, i) => (
                  <td key={i} class={text === null ? 'quiet-text' : 'mono'}>
                    {text ?? 'not given'}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p>
        <Button kind="quiet" aria-pressed={all} onClick={() => set_all(!all)}>
          {all ? 'Only what is different' : `Show ${same} fields that are equal`}
        </Button>
      </p>
      <ChartBoard runs={jobs.map(run_of)} />
    </>
  );
}

function Verdict({ weights }: { weights: 'same' | 'different' | 'unknown' }) {
  const [tone, text] =
    weights === 'same'
      ? ['good', 'The same bits: the weights of these runs are equal to the last digit.']
      : weights === 'different'
        ? ['warn', 'The weights of these runs are different.']
        : ['off', 'Not all of these runs told a fingerprint of their weights.'];
  return (
    <p class={`compare-verdict tone-${tone}`} role="status">
      {text}
    </p>
  );
}
