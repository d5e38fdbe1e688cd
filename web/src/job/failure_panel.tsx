// The root cause, as the launcher found it, above everything else on the page of a job that failed.
import { useEffect, useRef } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import type { Failure, JobDetail } from '../api/types';
import { job_address } from '../router';
import { CopyButton } from '../ui/copy';
import { Link } from '../ui/link';
import { usePolled } from '../ui/use_polled';

function log_address(job: JobDetail, log: { task: string; attempt: number }): string {
  return `${job_address(job.id, 'logs')}?${new URLSearchParams({ task: log.task, attempt: String(log.attempt) }).toString()}`;
}

/** The last lines of the task, the very last in sight. */
function LastLines({ lines }: { lines: readonly string[] }) {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <pre class="failure-lines" ref={box} tabIndex={0} aria-label="Its last lines">
      {lines.join('\n')}
    </pre>
  );
}

/** `brief`: beside other content only the cause itself is open, the rest a click away. */
export function FailurePanel({ job, brief }: { job: JobDetail; brief: boolean }) {
  const key = `${job.id} ${job.attempt}`;
  const { value } = usePolled(key, 0, (signal) => get_json<Failure>(job_path(job.id, 'failure'), {}, signal));
  const failure = value ?? { summary: job.reason, task: '', host: '', lines: [], collateral: [], memory: '', advice: '', log: null };
  return (
    <section class="failure" aria-label="Why this job failed">
      <div class="failure-head">
        <h2>Failed{failure.task ? `: ${failure.task}${failure.host ? ` on ${failure.host}` : ''}` : ''}</h2>
        {failure.log && failure.log.task !== '' && <Link href={log_address(job, failure.log)}>Open its log</Link>}
        <CopyButton text={[failure.summary, ...failure.lines].join('\n')} label="Copy the failure" />
      </div>
      <p class="failure-summary">{failure.summary || 'The job failed and left no reason.'}</p>
      <details key={brief ? 'brief' : 'whole'} open={!brief}>
        <summary>What it printed, and what to do</summary>
        <div class="stack failure-more">
          {failure.lines.length > 0 && <LastLines lines={failure.lines} />}
          {failure.memory && <p>Memory: {failure.memory}</p>}
          {failure.advice && <p>{failure.advice}</p>}
          {failure.collateral.length > 0 && (
            <div>
              <p>Ended because of it:</p>
              <ul class="failure-list">
                {failure.collateral.map((line, index) => (
                  <li key={index}>{line}</li>
                ))}
              </ul>
            </div>
          )}
        </div>
      </details>
    </section>
  );
}
