import { describe, expect, test } from 'vitest';
import { kTallest, ScrollMap } from '../src/logs/scroll_map';

describe('a list that fits into an element', () => {
  test('is scrolled as any other', () => {
    const map = new ScrollMap(20, 1000, 400);
    expect(map.height).toBe(20_000);
    expect(map.scrolled(1010)).toBe(false);
    expect([map.first_row, map.hidden]).toEqual([50, 10]);
    map.to_end();
    expect([map.scroll_top, map.at_end]).toEqual([19_600, true]);
    map.to_row(0);
    expect(map.top).toBe(0);
  });
  test('shorter than the view stays at its top', () => {
    const map = new ScrollMap(20, 3, 400);
    map.to_end();
    expect([map.top, map.scroll_top, map.at_end]).toEqual([0, 0, true]);
  });
});

describe('a list of ten million rows', () => {
  const rows = 10_000_000;
  const make = (): ScrollMap => new ScrollMap(20, rows, 400);

  test('has an element that browsers can show', () => expect(make().height).toBe(kTallest));

  test('moves by pixels with the wheel, from everywhere', () => {
    const map = make();
    map.to_row(5_000_000, 'start');
    const before = map.top;
    map.scrolled(map.scroll_top + 60);
    expect(map.top).toBe(before + 60);
    map.scrolled(map.scroll_top - 100);
    expect(map.top).toBe(before - 40);
  });

  test('every row can be reached by small steps, in both directions', () => {
    const map = make();
    map.to_row(100, 'start');
    for (let i = 0; i < 200 && map.top > 0; ++i) map.scrolled(map.scroll_top - 53);
    expect([map.top, map.scroll_top]).toEqual([0, 0]);
    map.to_row(rows - 100, 'start');
    for (let i = 0; i < 200; ++i) map.scrolled(map.scroll_top + 53);
    expect(map.at_end).toBe(true);
    expect(map.scroll_top).toBe(kTallest - 400);
  });

  test('a dragged bar goes to its part of the list', () => {
    const map = make();
    map.scrolled(kTallest / 2);
    expect(Math.abs(map.first_row - rows / 2)).toBeLessThan(1000);
    map.scrolled(kTallest - 400);
    expect(map.at_end).toBe(true);
    map.scrolled(0);
    expect(map.top).toBe(0);
  });

  test('after a pause the bar stands where the rows are', () => {
    const map = make();
    map.to_row(rows / 2, 'start');
    const before = [map.top, map.scroll_top] as const;
    for (let i = 0; i < 10_000; ++i) map.scrolled(map.scroll_top + 100);
    expect(map.top).toBe(before[0] + 1_000_000);
    expect(map.settle()).toBe(true);
    expect(map.scroll_top - before[1]).toBeLessThan(50_000);
    expect(map.top).toBe(before[0] + 1_000_000);
  });

  test('rows that are added do not move those in view', () => {
    const map = make();
    map.to_row(1234, 'start');
    map.resize(rows + 1000, 400);
    expect(map.first_row).toBe(1234);
  });
});
