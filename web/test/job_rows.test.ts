import { describe, expect, it } from 'vitest';
import type { Job } from '../src/api/types';
import { filters_of, is_filtered, list_query, merge_page, sort_of, sort_text, sorted_jobs } from '../src/jobs/job_rows';

function job(id: string, more: Partial<Job> = {}): Job {
  return {
    id,
    name: id,
    user: 'ann',
    queue: 'default',
    engine: 'local',
    priority: 0,
    state: 'running',
    reason: '',
    pinned: false,
    attempt: 1,
    instances: 1,
    exit_code: null,
    progress: null,
    eta: null,
    tags: {},
    submitted: '2026-11-18T10:00:00.000Z',
    started: null,
    ended: null,
    ...more,
  };
}

const ids = (rows: readonly Job[]): string => rows.map((row) => row.id).join(' ');

describe('filters in the address', () => {
  it('are read, and unknown states are not', () => {
    const filters = filters_of(new URLSearchParams('q=net&state=failed&state=odd&user=ann'));
    expect(filters).toEqual({ q: 'net', states: ['failed'], user: 'ann', queue: '', tag: '' });
    expect(is_filtered(filters)).toBe(true);
    expect(is_filtered(filters_of(new URLSearchParams('sort=name')))).toBe(false);
  });

  it('count a job that starts or stops as running', () => {
    expect(list_query(filters_of(new URLSearchParams('state=running&state=failed')))['state']).toBe(
      'starting,running,stopping,failed',
    );
  });
});

describe('merge_page', () => {
  it('puts new jobs first, drops those that went, keeps what the page does not cover', () => {
    const rows = [job('5'), job('4'), job('3'), job('2')];
    const page = { jobs: [job('6'), job('5'), job('3')], next: '3' };
    expect(ids(merge_page(rows, page, null))).toBe('6 5 3 2');
  });

  it('drops everything older when the page is the last', () => {
    expect(ids(merge_page([job('5'), job('4')], { jobs: [job('5')], next: null }, null))).toBe('5');
    expect(ids(merge_page([job('5')], { jobs: [], next: null }, null))).toBe('');
  });
});

describe('sorting', () => {
  it('survives the way through the address', () => {
    for (const text of ['', 'name', '-progress', 'submitted']) expect(sort_text(sort_of(new URLSearchParams({ sort: text })))).toBe(text);
    expect(sort_text(sort_of(new URLSearchParams('sort=nonsense')))).toBe('');
  });

  it('puts rows without a value last in both directions', () => {
    const rows = [job('3'), job('2', { progress: 0.2 }), job('1', { progress: 0.9 })];
    expect(ids(sorted_jobs(rows, { key: 'progress', descending: false }))).toBe('2 1 3');
    expect(ids(sorted_jobs(rows, { key: 'progress', descending: true }))).toBe('1 2 3');
  });

  it('is stable and does not care for case', () => {
    const rows = [job('3', { name: 'b' }), job('2', { name: 'B' }), job('1', { name: 'A' })];
    expect(ids(sorted_jobs(rows, { key: 'name', descending: false }))).toBe('1 3 2');
  });

  it('turns the list round by age', () => {
    expect(ids(sorted_jobs([job('2'), job('1')], { key: 'submitted', descending: false }))).toBe('1 2');
  });

  it('sorts ten thousand rows in a moment', () => {
    const rows = Array.from({ length: 10_000 }, (_, index) => job(String(index), { progress: (index * 7919) % 1000 }));
    const sorted = sorted_jobs(rows, { key: 'progress', descending: false });
    expect(sorted[0]?.progress).toBe(0);
    expect(sorted.at(-1)?.progress).toBe(999);
  });
});
