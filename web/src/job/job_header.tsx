import type { ComponentChildren } from 'preact';
import { with_query } from '../api/client';
import type { JobDetail } from '../api/types';
import { format_duration, format_time, format_value, plural, seconds_between } from '../format';
import { StateBadge, Tag } from '../ui/badge';
import { Button } from '../ui/button';
import { Link } from '../ui/link';
import { Progress } from '../ui/progress';
import { useNow } from '../ui/use_now';
import { clone_job, delete_job, download_job, pin_job, resume_job, scale_job, stop_job } from './actions';
import { main_curve, rate_curve, short_name, type Course } from './course';
import { allowed_actions } from './job_rules';

function Actions({ job, refresh }: { job: JobDetail; refresh: () => void }) {
  const allowed = allowed_actions(job);
  const then_refresh = (done: Promise<boolean>): void => void done.then((changed) => changed && refresh());
  return (
    <div class="actions" role="group" aria-label="Actions on this job">
      {allowed.stop && (
        <Button kind="danger" onClick={() => then_refresh(stop_job(job))}>
          Stop
        </Button>
      )}
      {allowed.resume && (
        <Button kind="primary" onClick={() => then_refresh(resume_job(job))}>
          Resume
        </Button>
      )}
      {allowed.scale && <Button onClick={() => then_refresh(scale_job(job))}>Scale</Button>}
      {allowed.clone && <Button onClick={() => void clone_job(job)}>Clone</Button>}
      <Button onClick={() => void download_job(job)}>Download</Button>
      <Button onClick={() => then_refresh(pin_job(job))}>{job.pinned ? 'Unpin' : 'Pin'}</Button>
      {allowed.remove && (
        <Button kind="danger" onClick={() => void delete_job(job)}>
          Delete
        </Button>
      )}
    </div>
  );
}

function Figure({ label, children, title }: { label: string; children: ComponentChildren; title?: string }) {
  return (
    <div class="figure" title={title}>
      <dt>{label}</dt>
      <dd class="number">{children}</dd>
    </div>
  );
}

function Figures({ job, course }: { job: JobDetail; course: Course | null }) {
  const now = useNow();
  const main = course && main_curve(course);
  const rate = course && rate_curve(course);
  const left = job.eta === null || job.ended !== null ? null : (Date.parse(job.eta) - now) / 1000;
  return (
    <dl class="figures">
      {job.started === null ? (
        <Figure label="Waiting">{format_duration(seconds_between(job.submitted, job.ended ?? now))}</Figure>
      ) : (
        <Figure label={job.ended === null ? 'Running' : 'Took'} title={`Since ${format_time(job.started)}`}>
          {format_duration(seconds_between(job.started, job.ended ?? now))}
        </Figure>
      )}
      {left !== null && job.eta !== null && (
        <Figure label="Left" title={`Expected end: ${format_time(job.eta)}`}>
          {format_duration(left)}
        </Figure>
      )}
      {main && <Figure label="Step">{main.step}</Figure>}
      {main && <Figure label={main.name}>{format_value(main.last)}</Figure>}
      {rate && rate !== main && <Figure label={short_name(rate.name)}>{format_value(rate.last)}</Figure>}
      <Figure label="Workers">{job.instances}</Figure>
      {job.exit_code !== null && <Figure label="Exit code">{job.exit_code}</Figure>}
    </dl>
  );
}

export function JobHeader({ job, course, refresh }: { job: JobDetail; course: Course | null; refresh: () => void }) {
  return (
    <header class="job-head">
      <div class="job-head-line">
        <h1>{job.name}</h1>
        <StateBadge state={job.state} />
        <Actions job={job} refresh={refresh} />
      </div>
      <p class="job-facts quiet-text">
        <span class="mono">{job.id}</span>
        <span>
          by <Link href={with_query('/', { user: job.user })}>{job.user}</Link>
        </span>
        <span>on {job.engine}</span>
        <span>queue {job.queue}</span>
        {job.attempt > 1 && <span>{plural(job.attempt, 'attempt')}</span>}
        {job.pinned && <Tag title="Kept by retention">pinned</Tag>}
        {Object.entries(job.tags).map(([key, value]) => (
          <Tag key={key}>{value === '' ? key : `${key}=${value}`}</Tag>
        ))}
      </p>
      {job.state === 'queued' && job.reason !== '' && <p class="job-reason">{job.reason}</p>}
      <Figures job={job} course={course} />
      {job.progress !== null && job.ended === null && (
        <div class="job-progress">
          <Progress value={job.progress} label="Progress of this job" />
          <span class="number quiet-text">{Math.floor(job.progress * 100)}%</span>
        </div>
      )}
    </header>
  );
}
