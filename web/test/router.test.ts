import { describe, expect, it } from 'vitest';
import { changed_query, job_address, parse_route } from '../src/router';

describe('parse_route', () => {
  it('finds the page, the job and the tab', () => {
    expect(parse_route('/')).toEqual({ page: 'jobs' });
    expect(parse_route('/cluster/')).toEqual({ page: 'cluster' });
    expect(parse_route('/jobs/a1')).toEqual({ page: 'job', job: 'a1', tab: 'overview' });
    expect(parse_route('/jobs/a1/logs')).toEqual({ page: 'job', job: 'a1', tab: 'logs' });
  });

  it('says unknown for what it does not know', () => {
    for (const path of ['/nothing', '/jobs/a/b', '/jobs/a/logs/more', '/cluster/x', '/jobs/%E0%A4%A']) {
      expect(parse_route(path)).toEqual({ page: 'unknown' });
    }
  });

  it('takes back what job_address made, whatever the name', () => {
    const name = 'a/b?c#d <script>';
    expect(parse_route(job_address(name, 'files'))).toEqual({ page: 'job', job: name, tab: 'files' });
  });
});

describe('changed_query', () => {
  it('replaces, repeats and removes parameters and keeps the rest', () => {
    const query = new URLSearchParams('q=a&state=running&keep=1');
    expect(changed_query(query, { q: '', state: ['failed', 'queued'] }).toString()).toBe('keep=1&state=failed&state=queued');
    expect(changed_query(query, { keep: null }).toString()).toBe('q=a&state=running');
  });
});
