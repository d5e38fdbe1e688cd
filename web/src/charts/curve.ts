// The values of one metric of one run, in the order in which they were reported. Memory is bounded: a
// curve that has grown past `kMostPoints` keeps half as many, each with the mean, the lowest and the highest of
// those that it stands for.
import type { Metric, Series } from '../api/types';

export const kMostPoints = 4000;

export class Curve {
  step: number[];
  time: number[]; // milliseconds since 1970
  value: (number | null)[];
  low: (number | null)[] | null;
  high: (number | null)[] | null;
  count: number;
  last_id: number;
  invalid = 0; // values that are not finite
  first_invalid: number | null = null;

  constructor(series: Series) {
    this.step = [...series.step];
    this.time = [...series.time];
    this.value = [...series.value];
    this.low = series.low ? [...series.low] : null;
    this.high = series.high ? [...series.high] : null;
    this.count = series.count;
    this.last_id = series.last_id;
    this.value.forEach((value, i) => value === null && this.note_invalid(this.step[i]!));
  }

  static empty(name: string): Curve {
    return new Curve({ name, count: 0, last_id: 0, step: [], time: [], value: [] });
  }

  // False: this value is there already.
  append(metric: Metric): boolean {
    if (metric.id <= this.last_id) return false;
    this.last_id = metric.id;
    this.step.push(metric.step);
    this.time.push(Date.parse(metric.time));
    this.value.push(metric.value);
    this.low?.push(metric.value);
    this.high?.push(metric.value);
    ++this.count;
    if (metric.value === null) this.note_invalid(metric.step);
    if (this.step.length > kMostPoints) this.halve();
    return true;
  }

  get last(): { step: number; time: number; value: number | null } | null {
    const i = this.step.length - 1;
    return i < 0 ? null : { step: this.step[i]!, time: this.time[i]!, value: this.value[i]! };
  }

  private note_invalid(step: number): void {
    ++this.invalid;
    this.first_invalid ??= step;
  }

  private halve(): void {
    const low = this.low ?? this.value;
    const high = this.high ?? this.value;
    const next: Pick<Curve, 'step' | 'time' | 'value'> = { step: [], time: [], value: [] };
    const lows: (number | null)[] = [];
    const highs: (number | null)[] = [];
    for (let i = 0; i < this.step.length; i += 2) {
      const j = Math.min(i + 1, this.step.length - 1);
      next.step.push(this.step[j]!);
      next.time.push(this.time[j]!);
      next.value.push(merged(this.value[i]!, this.value[j]!, (a, b) => (a + b) / 2));
      lows.push(merged(low[i]!, low[j]!, Math.min));
      highs.push(merged(high[i]!, high[j]!, Math.max));
    }
    Object.assign(this, next);
    this.low = lows;
    this.high = highs;
  }
}

function merged(a: number | null, b: number | null, join: (a: number, b: number) => number): number | null {
  return a === null ? b : b === null ? a : join(a, b);
}
