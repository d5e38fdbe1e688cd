// Curves of several runs as one table for the chart: one column of x, and for every run a line, the band
// of its lowest and highest values where points stand for several, and the line before smoothing.
import type { Curve } from './curve';

export type Axis = 'step' | 'duration' | 'clock';
export type Column = (number | null)[];

export interface Lines {
  x: number[];
  runs: { line: Column; raw: Column | null; low: Column | null; high: Column | null }[];
}

interface Points {
  x: number[];
  line: Column;
  raw: Column | null;
  low: Column | null;
  high: Column | null;
}

// Seconds for the two axes of time. `began`: of each run, in milliseconds.
export function aligned(curves: readonly (Curve | undefined)[], began: readonly number[], axis: Axis, smoothing: number, log: boolean): Lines {
  const all = curves.map((curve, i) => points_of(curve, began[i] ?? 0, axis, smoothing, log));
  if (all.length === 1) return { x: all[0]!.x, runs: [all[0]!] };
  const x = union(all.map((points) => points.x));
  return { x, runs: all.map((points) => spread(points, x)) };
}

function points_of(curve: Curve | undefined, began: number, axis: Axis, smoothing: number, log: boolean): Points {
  if (!curve) return { x: [], line: [], raw: null, low: null, high: null };
  const at =
    axis === 'step'
      ? curve.step
      : curve.time.map((time) => (axis === 'clock' ? time : time - began) / 1000);
  const order = ascending(at);
  const pick = (column: Column | null): Column | null =>
    column && order.map((i) => positive(column[i]!, log));
  const raw = pick(curve.value)!;
  return {
    x: order.map((i) => at[i]!),
    line: smoothing > 0 ? smoothed(raw, smoothing) : raw,
    raw: smoothing > 0 ? raw : null,
    low: smoothing > 0 ? null : pick(curve.low),
    high: smoothing > 0 ? null : pick(curve.high),
  };
}

function positive(value: number | null, log: boolean): number | null {
  return log && value !== null && value <= 0 ? null : value;
}

// Places of `x` in ascending order. A run that went back to a checkpoint reports steps again: the newer value counts.
export function ascending(x: readonly number[]): number[] {
  const order = x.map((_, i) => i);
  let sorted = true;
  for (let i = 1; i < x.length && sorted; ++i) sorted = x[i]! > x[i - 1]!;
  if (sorted) return order;
  order.sort((a, b) => x[a]! - x[b]! || a - b);
  return order.filter((place, i) => i + 1 === order.length || x[order[i + 1]!] !== x[place]);
}

// Exponential moving average without the pull of its beginning; `weight` in [0, 1) is that of what came before.
export function smoothed(values: Column, weight: number): Column {
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

function union(columns: readonly (readonly number[])[]): number[] {
  const all = columns.flat().sort((a, b) => a - b);
  return all.filter((value, i) => i === 0 || value !== all[i - 1]);
}

function spread(points: Points, x: readonly number[]): Points {
  const places = new Map(points.x.map((value, i) => [value, i]));
  const onto = (column: Column | null): Column | null =>
    column &&
    x.map((value) => {
      const place = places.get(value);
      // undefined, which uPlot draws across; null is a gap
      return place === undefined ? (undefined as unknown as null) : column[place]!;
    });
  return { x: [...x], line: onto(points.line)!, raw: onto(points.raw), low: onto(points.low), high: onto(points.high) };
}
