import { describe, expect, test } from 'vitest';
import { aligned, ascending, smoothed } from '../src/charts/aligned';
import { by_name, groups_of } from '../src/charts/board';
import { Curve, kMostPoints } from '../src/charts/curve';
import { csv_field, file_name } from '../src/charts/save';

const time = (ms: number): string => new Date(ms).toISOString();

function curve(steps: number[], values: (number | null)[] = steps, last_id = 0): Curve {
  return new Curve({ name: 'loss', count: steps.length, last_id, step: steps, time: steps.map((step) => 1000 * step), value: values });
}

describe('a curve', () => {
  test('takes each value once', () => {
    const one = curve([1, 2], [5, 4], 10);
    expect(one.append({ id: 10, name: 'loss', step: 2, value: 4, time: time(2000) })).toBe(false);
    expect(one.append({ id: 11, name: 'loss', step: 3, value: 3, time: time(3000) })).toBe(true);
    expect(one.append({ id: 11, name: 'loss', step: 3, value: 3, time: time(3000) })).toBe(false);
    expect([one.step, one.value, one.count]).toEqual([[1, 2, 3], [5, 4, 3], 3]);
    expect(one.last).toEqual({ step: 3, time: 3000, value: 3 });
  });

  test('stays small however long it grows, and keeps extremes', () => {
    const one = Curve.empty('loss');
    for (let i = 1; i <= 100_000; ++i) one.append({ id: i, name: 'loss', step: i, value: i === 50_001 ? 1e6 : i === 70_002 ? -7 : i % 10, time: time(i) });
    expect(one.step.length).toBeLessThanOrEqual(kMostPoints);
    expect(one.count).toBe(100_000);
    expect(Math.max(...one.high!.map((value) => value!))).toBe(1e6);
    expect(Math.min(...one.low!.map((value) => value!))).toBe(-7);
    expect(one.last!.step).toBe(100_000);
    for (let i = 1; i < one.step.length; ++i) expect(one.step[i]!).toBeGreaterThan(one.step[i - 1]!);
  });

  test('says where values stopped to be finite', () => {
    const one = curve([1, 2, 3], [1, null, null]);
    expect([one.invalid, one.first_invalid]).toEqual([2, 2]);
    one.append({ id: 9, name: 'loss', step: 4, value: null, time: time(4000) });
    expect([one.invalid, one.first_invalid]).toEqual([3, 2]);
  });
});

describe('tables for charts', () => {
  test('steps that were done again count as they were done last', () => {
    expect(ascending([1, 2, 3])).toEqual([0, 1, 2]);
    expect(ascending([1, 2, 3, 2, 3, 4])).toEqual([0, 3, 4, 5]);
    const lines = aligned([curve([1, 2, 3, 2, 3], [9, 8, 7, 6, 5])], [0], 'step', 0, false);
    expect([lines.x, lines.runs[0]!.line]).toEqual([[1, 2, 3], [9, 6, 5]]);
  });

  test('runs with other steps share one axis', () => {
    const lines = aligned([curve([1, 3]), curve([2, 3]), undefined], [0, 0, 0], 'step', 0, false);
    expect(lines.x).toEqual([1, 2, 3]);
    expect(lines.runs.map((run) => run.line)).toEqual([[1, undefined, 3], [undefined, 2, 3], [undefined, undefined, undefined]]);
  });

  test('axes of time', () => {
    const one = curve([1, 2]);
    expect(aligned([one], [1000], 'duration', 0, false).x).toEqual([0, 1]);
    expect(aligned([one], [1000], 'clock', 0, false).x).toEqual([1, 2]);
  });

  test('a logarithm has no place for zero', () => {
    expect(aligned([curve([1, 2, 3], [0, -1, 2])], [0], 'step', 0, true).runs[0]!.line).toEqual([null, null, 2]);
  });

  test('smoothing begins at the first value, follows a constant, and leaves gaps', () => {
    expect(smoothed([4, 4, 4], 0.9)).toEqual([4, 4, 4].map((value) => expect.closeTo(value)));
    expect(smoothed([1, null, 3], 0.5)).toEqual([1, null, expect.closeTo(7 / 3)]);
    const lines = aligned([curve([1, 2], [1, 3])], [0], 'step', 0.5, false);
    expect(lines.runs[0]!.raw).toEqual([1, 3]);
    expect(lines.runs[0]!.line[1]).toBeCloseTo(7 / 3);
  });
});

test('names in groups, losses first, numbers as numbers', () => {
  const names = ['a', 'loss', 'speed/x', 'speed/y', 'val/b', 'train/layer10', 'train/layer2', 'train/accuracy', 'train/loss', '/odd'].sort(by_name);
  expect(groups_of(names)).toEqual([
    { group: '', names: ['loss', '/odd', 'a', 'val/b'] },
    { group: 'train', names: ['train/loss', 'train/accuracy', 'train/layer2', 'train/layer10'] },
    { group: 'speed', names: ['speed/x', 'speed/y'] },
  ]);
});

test('fields of CSV cannot be formulas or break a row', () => {
  expect(['a', 'a,b', 'a"b', '=1+1', '-x', 1.5, -2].map(csv_field)).toEqual(['a', '"a,b"', '"a""b"', "'=1+1", "'-x", '1.5', '-2']);
  expect(file_name('../../train/loss <b>')).toBe('..-..-train-loss-b');
  expect(file_name('///')).toBe('metric');
});
