// The course of a job's metrics as the header and the overview show it.
import type { Metric, Series } from '../api/types';

const kMostPoints = 600;

export interface Curve {
  name: string;
  step: number;
  last: number | null;
  time: number[];
  value: (number | null)[];
}

export interface Course {
  curves: ReadonlyMap<string, Curve>;
  last_id: number;
}

export function course_of(series: readonly Series[]): Course {
  const curves = new Map<string, Curve>();
  let last_id = 0;
  for (const each of series) {
    last_id = Math.max(last_id, each.last_id);
    curves.set(each.name, {
      name: each.name,
      step: each.step.at(-1) ?? 0,
      last: each.value.at(-1) ?? null,
      time: each.time,
      value: each.value,
    });
  }
  return { curves, last_id };
}

/** Every second point of a curve that has grown too long: it stays cheap to draw however long the page is open. */
function thinned(curve: Curve): Curve {
  if (curve.time.length <= 2 * kMostPoints) return curve;
  const keep = (_: unknown, index: number): boolean => index % 2 === 0;
  return { ...curve, time: curve.time.filter(keep), value: curve.value.filter(keep) };
}

/** `course` with values that came since. */
export function with_metrics(course: Course, metrics: readonly Metric[]): Course {
  if (metrics.length === 0) return course;
  const curves = new Map(course.curves);
  let last_id = course.last_id;
  const fresh = new Map<string, Metric[]>();
  for (const metric of metrics) {
    if (metric.id <= course.last_id) continue;
    last_id = Math.max(last_id, metric.id);
    fresh.set(metric.name, [...(fresh.get(metric.name) ?? []), metric]);
  }
  for (const [name, values] of fresh) {
    const old = curves.get(name) ?? { name, step: 0, last: null, time: [], value: [] };
    curves.set(
      name,
      thinned({
        name,
        step: values.at(-1)?.step ?? old.step,
        last: values.at(-1)?.value ?? null,
        time: [...old.time, ...values.map((metric) => Date.parse(metric.time))],
        value: [...old.value, ...values.map((metric) => metric.value)],
      }),
    );
  }
  return { curves, last_id };
}

/** `course` with the newest values: a series of many points ends with the mean of its last group. */
export function with_last(course: Course, metrics: readonly Metric[]): Course {
  const curves = new Map(course.curves);
  for (const metric of metrics) {
    const curve = curves.get(metric.name);
    if (curve && metric.id <= course.last_id) curves.set(metric.name, { ...curve, step: metric.step, last: metric.value });
  }
  return { ...course, curves };
}

/** The name that stands for the job: "loss", else one with loss in it, else the first. */
export function main_metric(names: readonly string[]): string | null {
  return names.find((name) => name === 'loss') ?? names.find((name) => /loss/i.test(name)) ?? names[0] ?? null;
}

/** A rate of samples: "samples_per_second", "samples/s", "throughput". */
export function rate_metric(names: readonly string[]): string | null {
  return names.find((name) => /^(samples|examples|images|tokens).*(\/s|per_s|_s$|rate)|throughput/i.test(name)) ?? null;
}
