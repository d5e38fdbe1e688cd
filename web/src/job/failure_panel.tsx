// The root cause, as the launcher found it, above everything else on the page of a job that failed.
import { get_json, job_path } from '../api/client';
import type { Failure, JobDetail } from '../api/types';
import { job_address } from '../router';
import { CopyButton } from '../ui/copy';
import { Link } from '../ui/link';
import { usePolled } from '../ui/use_polled';

function log_address(job: JobDetail, log: { task: string; attempt: number }): string {
  return `${job_address(job.id, 'logs')}?${new URLSearchParams({ task: log.task, attempt: String(log.attempt) }).toString()}`;
}

export function FailurePanel({ job }: { job: JobDetail }) {
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
      {failure.advice && <p class="failure-advice">{failure.advice}</p>}
      {failure.memory && <p>Memory: {failure.memory}</p>}
      {failure.lines.length > 0 && (
        <pre class="failure-lines" tabIndex={0} aria-label="Its last lines">
          {failure.lines.join('\n')}
        </pre>
      )}
      {failure.collateral.length > 0 && (
        <details>
          <summary>{failure.collateral.length} more ended because of it</summary>
          <ul class="failure-more">
            {failure.collateral.map((line, index) => (
              <li key={index}>{line}</li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
