import { describe, expect, it } from 'vitest';
import { with_query, job_path } from '../src/api/client';
import { format_bytes, format_duration, format_value, plural, seconds_between } from '../src/format';
import { spark_points } from '../src/ui/spark_points';
import { scroll_to_row, virtual_range } from '../src/ui/virtual_range';

describe('formatters', () => {
  it('write sizes in decimal units', () => {
    expect([0, 999, 1000, 1500, 999_600, 25_276_518_400].map(format_bytes)).toEqual(['0 B', '999 B', '1.0 kB', '1.5 kB', '1.0 MB', '25.3 GB']);
  });

  it('write values in few characters', () => {
    expect([0, 3, 0.03125, 1.23456, 12345.678, 1234567.8, 1.5e-7].map((value) => format_value(value))).toEqual([
      '0',
      '3',
      '0.0313',
      '1.235',
      '12346',
      '1.23e6',
      '1.50e-7',
    ]);
    expect(format_value(null)).toBe('not finite');
    expect(format_value(Infinity)).toBe('not finite');
  });

  it('write durations with their two largest units', () => {
    expect([0, 59.6, 75, 600, 7265, 86400, 200_000, -5].map(format_duration)).toEqual(['0s', '1m', '1m 15s', '10m', '2h 1m', '1d', '2d 7h', '0s']);
  });

  it('count', () => {
    expect([plural(1, 'job'), plural(2, 'job'), plural(0, 'query', 'queries')]).toEqual(['1 job', '2 jobs', '0 queries']);
    expect(seconds_between('2026-11-18T10:00:00.000Z', '2026-11-18T10:01:30.500Z')).toBe(90.5);
    expect(seconds_between(null, 5)).toBe(0);
  });
});

describe('addresses of the service', () => {
  it('leave empty parameters out and repeat lists', () => {
    expect(with_query('/v1/jobs', { q: '', limit: 5, state: ['a', 'b'], none: null, yes: true })).toBe('/v1/jobs?limit=5&state=a&state=b&yes=1');
    expect(with_query('/v1/jobs')).toBe('/v1/jobs');
  });

  it('encode names and keep the slashes of file paths', () => {
    expect(job_path('a/b', 'files', 'model/x y.bin')).toBe('/v1/jobs/a%2Fb/files/model/x%20y.bin');
  });
});

describe('virtual rows', () => {
  it('are those on the screen, and a margin', () => {
    expect(virtual_range(0, 100, 10, 1000, 2)).toEqual({ first: 0, end: 12 });
    expect(virtual_range(5000, 100, 10, 1000, 2)).toEqual({ first: 498, end: 512 });
    expect(virtual_range(99_999, 100, 10, 1000, 2)).toEqual({ first: 1000, end: 1000 });
    expect(virtual_range(0, 100, 10, 0)).toEqual({ first: 0, end: 0 });
  });

  it('come into sight with the least scrolling', () => {
    expect(scroll_to_row(3, 0, 100, 10)).toBe(0);
    expect(scroll_to_row(12, 0, 100, 10)).toBe(30);
    expect(scroll_to_row(2, 50, 100, 10)).toBe(20);
    expect(scroll_to_row(9, 0, 100, 10, 20)).toBe(20);
  });
});

describe('spark_points', () => {
  it('draws runs of finite values and leaves gaps', () => {
    expect(spark_points([1, 2, null, 3, 4], 43, 23)).toHaveLength(2);
    expect(spark_points([0, 1], 103, 23)[0]).toBe('1.5,21.5 101.5,1.5');
    expect(spark_points([5, 5], 103, 20)[0]).toBe('1.5,10.0 101.5,10.0');
    expect(spark_points([null, 1], 10, 10)).toEqual([]);
  });
});
