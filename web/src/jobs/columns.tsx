// Columns of the list of jobs.
import { with_query } from '../api/client';
import type { Job } from '../api/types';
import { format_age, format_duration, format_time, format_value, seconds_between } from '../format';
import { job_address } from '../router';
import { StateBadge, Tag } from '../ui/badge';
import { Link } from '../ui/link';
import { Progress } from '../ui/progress';
import { Sparkline } from '../ui/sparkline';
import type { Column } from '../ui/virtual_table';
import type { Sort, SortKey } from './job_rows';

function NameCell({ job }: { job: Job }) {
  const tags = Object.entries(job.tags);
  return (
    <div class="job-name">
      <span class="job-title">
        <Link href={job_address(job.id)} class="job-link">
          {job.name}
        </Link>
        {job.pinned && <Tag title="Kept by retention">pinned</Tag>}
        {tags.slice(0, 2).map(([key, value]) => (
          <Tag key={key}>{value === '' ? key : `${key}=${value}`}</Tag>
        ))}
      </span>
      <span class={job.state === 'failed' ? 'job-note bad' : 'job-note'} title={job.reason || job.id}>
        {job.reason || job.id}
      </span>
    </div>
  );
}

function ProgressCell({ job, now }: { job: Job; now: number }) {
  if (job.ended !== null && job.started !== null) {
    return <span class="quiet-text number">took {format_duration(seconds_between(job.started, job.ended))}</span>;
  }
  if (job.progress === null) {
    return job.started === null ? null : <span class="quiet-text number">{format_age(job.started, now)}</span>;
  }
  const left = job.eta === null ? '' : `${format_duration((Date.parse(job.eta) - now) / 1000)} left`;
  return (
    <div class="progress-cell">
      <Progress value={job.progress} label={`Progress of ${job.name}`} />
      <span class="number quiet-text">
        {Math.floor(job.progress * 100)}% {left}
      </span>
    </div>
  );
}

function MetricCell({ job }: { job: Job }) {
  if (!job.latest) return null;
  const { name, value, spark } = job.latest;
  return (
    <div class="metric-cell">
      <span class="metric-text">
        <span class="number">{format_value(value)}</span>
        <span class="quiet-text metric-name">{name}</span>
      </span>
      <Sparkline values={spark} label={`Recent course of ${name}`} />
    </div>
  );
}

interface ColumnOptions {
  sort: Sort;
  on_sort: (key: SortKey) => void;
  now: number;
  selected: ReadonlySet<string>;
  toggle: (id: string) => void;
  toggle_all: () => void;
  all_selected: boolean;
}

export function job_columns({ sort, on_sort, now, selected, toggle, toggle_all, all_selected }: ColumnOptions): Column<Job>[] {
  const sortable = (key: SortKey, label: string) => ({
    head: (
      <button type="button" class="sort" onClick={() => on_sort(key)}>
        {label}
        <span class="sort-mark" aria-hidden="true">
          {sort.key === key ? (sort.descending ? '↓' : '↑') : ''}
        </span>
      </button>
    ),
    sorted: sort.key !== key ? undefined : sort.descending ? ('descending' as const) : ('ascending' as const),
  });
  return [
    {
      id: 'select',
      head: <input type="checkbox" aria-label="Select all jobs shown" checked={all_selected} onChange={toggle_all} />,
      cell: (job) => (
        <input type="checkbox" aria-label={`Select ${job.name}`} checked={selected.has(job.id)} onChange={() => toggle(job.id)} />
      ),
    },
    { id: 'state', ...sortable('state', 'State'), cell: (job) => <StateBadge state={job.state} /> },
    { id: 'name', ...sortable('name', 'Job'), cell: (job) => <NameCell job={job} /> },
    { id: 'user', ...sortable('user', 'Owner'), cell: (job) => <Link href={with_query('/', { user: job.user })}>{job.user}</Link> },
    { id: 'engine', ...sortable('engine', 'Engine'), cell: (job) => job.engine },
    { id: 'tasks', ...sortable('tasks', 'Tasks'), cell: (job) => <span class="number">{job.tasks || job.instances || ''}</span> },
    { id: 'progress', ...sortable('progress', 'Progress'), cell: (job) => <ProgressCell job={job} now={now} /> },
    { id: 'metric', ...sortable('metric', 'Metric'), cell: (job) => <MetricCell job={job} /> },
    {
      id: 'age',
      ...sortable('submitted', 'Age'),
      cell: (job) => (
        <time class="number" dateTime={job.submitted} title={format_time(job.submitted)}>
          {format_age(job.submitted, now)}
        </time>
      ),
    },
  ];
}
