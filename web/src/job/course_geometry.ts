// Where a curve over time and the events beside it stand in a box.
import type { TimelineEntry } from '../api/types';
import type { Curve } from './course';

export interface CourseMark {
  x: number;
  kind: string;
  text: string;
}

export interface CourseGeometry {
  lines: string[];
  marks: CourseMark[];
  low: number;
  high: number;
  begin: number;
  end: number;
}

const kAheadMs = 120_000;
const kMarked = ['view', 'evicted', 'dismissed', 'task_ended', 'scaled'];

/** What an entry of the timeline tells, with its task and, where the text alone does not say it, its kind. */
export function entry_sentence(entry: TimelineEntry): string {
  const kind = { checkpoint: 'checkpoint', evaluation: 'evaluation', task_ended: 'ended:' }[entry.kind] ?? '';
  const parts = [entry.text.includes(entry.task) ? '' : entry.task, entry.text.includes(kind) ? '' : kind, entry.text || entry.kind];
  return parts.filter((part) => part !== '').join(' ');
}

/** True for what changes who takes part: worth a mark on the curve. */
export function is_marked(kind: string): boolean {
  return kMarked.includes(kind);
}

/** From the least to the largest, or to where 98% are when the rest lies far above: a first loss of 1e4 does not flatten the curve. */
function bounds(values: readonly number[]): [number, number] {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[0] ?? 0;
  const most = sorted.at(-1) ?? low;
  const usual = sorted[Math.floor((sorted.length - 1) * 0.98)] ?? low;
  const high = most > low + 4 * (usual - low) && usual > low ? usual : most;
  return high > low ? [low, high] : [low - 0.5, low + 0.5];
}

export function course_geometry(
  curve: Curve,
  entries: readonly TimelineEntry[],
  width: number,
  height: number,
): CourseGeometry | null {
  const finite = curve.value.filter((value): value is number => value !== null && Number.isFinite(value));
  const begin = curve.time[0];
  const last = curve.time.at(-1);
  if (finite.length < 2 || begin === undefined || last === undefined || last <= begin) return null;
  const marked = entries.filter((entry) => is_marked(entry.kind)).map((entry) => ({ ...entry, at: Date.parse(entry.time) }));
  // A change is seen at once, before the curve has got there.
  const end = Math.max(last, ...marked.map((entry) => entry.at).filter((at) => at < last + kAheadMs));
  const [low, high] = bounds(finite);
  const x_of = (time: number): number => ((time - begin) / (end - begin)) * width;
  const y_of = (value: number): number => Math.max(0, Math.min(height, ((high - value) / (high - low)) * (height - 4) + 2));
  const lines: string[] = [];
  let line: string[] = [];
  const finish = (): void => {
    if (line.length > 1) lines.push(line.join(' '));
    line = [];
  };
  curve.value.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) finish();
    else line.push(`${x_of(curve.time[index] ?? begin).toFixed(1)},${y_of(value).toFixed(1)}`);
  });
  finish();
  const marks = marked
    .map((entry) => ({ x: x_of(entry.at), kind: entry.kind, text: entry.text }))
    .filter((mark) => mark.x >= 0 && mark.x <= width);
  return { lines, marks, low, high, begin, end };
}
