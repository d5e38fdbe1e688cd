// The list of jobs as data: what the filters in the address ask for, how pages are joined, how rows are sorted.
import type { Query } from '../api/client';
import { has_ended, type Job, type JobPage } from '../api/types';

export const kStates = ['queued', 'running', 'succeeded', 'failed', 'stopped'] as const;
export const kSortKeys = ['state', 'name', 'user', 'engine', 'tasks', 'progress', 'metric', 'submitted'] as const;
export type SortKey = (typeof kSortKeys)[number];

export interface Sort {
  key: SortKey;
  descending: boolean;
}

export interface Filters {
  q: string;
  states: string[];
  user: string;
  queue: string;
  tag: string;
}

export const kNewestFirst: Sort = { key: 'submitted', descending: true };

export function filters_of(query: URLSearchParams): Filters {
  return {
    q: query.get('q') ?? '',
    states: query.getAll('state').filter((state) => (kStates as readonly string[]).includes(state)),
    user: query.get('user') ?? '',
    queue: query.get('queue') ?? '',
    tag: query.get('tag') ?? '',
  };
}

export function is_filtered(filters: Filters): boolean {
  return filters.states.length > 0 || [filters.q, filters.user, filters.queue, filters.tag].some((text) => text !== '');
}

/** "-progress" -> by progress, the largest first. */
export function sort_of(query: URLSearchParams): Sort {
  const text = query.get('sort') ?? '';
  const key = kSortKeys.find((name) => name === text.replace(/^-/, ''));
  return key ? { key, descending: text.startsWith('-') } : kNewestFirst;
}

export function sort_text(sort: Sort): string {
  if (sort.key === kNewestFirst.key && sort.descending === kNewestFirst.descending) return '';
  return (sort.descending ? '-' : '') + sort.key;
}

/** The parameters of GET /v1/jobs. A job that starts or stops counts as running. */
export function list_query(filters: Filters): Query {
  const states = filters.states.flatMap((state) => (state === 'running' ? ['starting', 'running', 'stopping'] : [state]));
  return { latest: 1, q: filters.q, state: states.join(','), user: filters.user, queue: filters.queue, tag: filters.tag };
}

/**
 * Rows (newest first) with a page that was read again: what the page covers is replaced by it, so that jobs which no
 * longer fit the filters go; rows older than the page stay.
 */
export function merge_page(rows: readonly Job[], page: JobPage, before: string | null): Job[] {
  const newer = before === null ? [] : rows.filter((row) => row.id >= before);
  const oldest = page.jobs.at(-1)?.id;
  const older = page.next === null || oldest === undefined ? [] : rows.filter((row) => row.id < oldest);
  return [...newer, ...page.jobs, ...older];
}

const kStateOrder = ['running', 'stopping', 'starting', 'queued', 'failed', 'stopped', 'succeeded'];

function sort_value(job: Job, key: SortKey): number | string | null {
  switch (key) {
    case 'state':
      return kStateOrder.indexOf(job.state);
    case 'tasks':
      return job.tasks ?? job.instances;
    case 'progress':
      return job.state === 'succeeded' ? 1 : job.progress;
    case 'metric':
      return job.latest?.value ?? null;
    case 'submitted':
      return job.id;
    default:
      return job[key].toLowerCase();
  }
}

/** A sorted copy; what has no value is last in either direction, and equal rows stay newest first. */
export function sorted_jobs(rows: readonly Job[], sort: Sort): readonly Job[] {
  if (sort.key === 'submitted') return sort.descending ? rows : [...rows].reverse();
  const direction = sort.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const left = sort_value(a, sort.key);
    const right = sort_value(b, sort.key);
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return left === right ? 0 : (left < right ? -1 : 1) * direction;
  });
}

export function any_active(rows: readonly Job[]): boolean {
  return rows.some((row) => !has_ended(row.state));
}
