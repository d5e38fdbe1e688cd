import { expect, test } from 'vitest';
import { colour_of, kMostRows, MergedLog } from '../src/logs/merged_log';

const texts = (log: MergedLog): string[] => Array.from({ length: log.rows }, (_, i) => `${log.row(i)!.task} ${log.row(i)!.line.text}`);

test('lines of several tasks in the order in which they came, each once', () => {
  const log = new MergedLog();
  log.append('worker:0', 1, 0, 2, 'a\n');
  log.append('worker:1', 1, 0, 4, 'x\ny\n');
  log.append('worker:0', 1, 2, 4, 'b\n');
  log.append('worker:0', 1, 2, 4, 'b\n');
  expect(texts(log)).toEqual(['worker:0 a', 'worker:1 x', 'worker:1 y', 'worker:0 b']);
});

test('a line that comes in pieces is one row, and another attempt begins anew', () => {
  const log = new MergedLog();
  log.append('worker:0', 1, 0, 3, 'abc');
  expect(log.rows).toBe(0);
  log.append('worker:0', 1, 3, 7, 'def\n');
  log.append('worker:0', 2, 0, 2, 'z\n');
  expect(texts(log)).toEqual(['worker:0 abcdef', 'worker:0 z']);
});

test('colours go on in a task and do not reach another', () => {
  const log = new MergedLog();
  log.append('worker:0', 1, 0, 9, '\x1b[31mred\n');
  log.append('worker:1', 1, 0, 6, 'plain\n');
  log.append('worker:0', 1, 9, 15, 'still\n');
  expect([0, 1, 2].map((i) => log.row(i)!.line.from.fg)).toEqual([null, null, '1']);
});

test('the newest rows are kept, and what was dropped is counted', () => {
  const log = new MergedLog();
  const total = 3 * kMostRows + 5;
  for (let i = 0; i < total; ++i) log.append('worker:0', 1, 10 * i, 10 * i + 10, `${i}\n`);
  expect([log.rows, log.dropped]).toEqual([kMostRows, total - kMostRows]);
  expect(log.row(0)!.line.text).toBe(String(total - kMostRows));
  expect(log.row(kMostRows - 1)!.line.text).toBe(String(total - 1));
});

test('a task keeps its colour', () => {
  expect(colour_of('worker:0')).toBe(1);
  expect(colour_of('worker:9')).toBe(2);
  expect(colour_of('chief')).toBe(colour_of('chief'));
});
