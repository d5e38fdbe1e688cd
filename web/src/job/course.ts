// The course of a job's metrics as the header and the overview show it.
import type { Metric, Series } from '../api/types';

const kMostPoints = 600;

export interface Curve {
  name: string;
  /** Values reported, drawn or not. */
  count: number;
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
      count: each.count,
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
    const old = curves.get(name) ?? { name, count: 0, step: 0, last: null, time: [], value: [] };
    curves.set(
      name,
      thinned({
        name,
        count: old.count + values.length,
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

/** The curve that stands for the job: of those with "loss" in their names the one with most values, else the first. */
export function main_curve(course: Course): Curve | null {
  const curves = [...course.curves.values()];
  const losses = curves.filter((curve) => /loss/i.test(curve.name)).sort((a, b) => b.count - a.count);
  return losses[0] ?? curves[0] ?? null;
}

/** The rate of samples: "speed/samples_per_second", "samples/s", "throughput". */
export function rate_curve(course: Course): Curve | null {
  const pattern = /(^|\/)(samples|examples|images|tokens).*(\/s|per_s|_s$|rate)|throughput/i;
  return [...course.curves.values()].find((curve) => pattern.test(curve.name)) ?? null;
}

/** "speed/samples_per_second" -> "samples per second". */
export function short_name(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1).replaceAll('_', ' ') || name;
}
