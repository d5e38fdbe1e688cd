// What happened to a job, as lanes over time: one of the job, one a task. A task's lane has bars from each
// start to the end that follows it.
import type { TimelineEntry } from '../api/types';

export type Tone = 'go' | 'good' | 'warn' | 'bad' | 'off';

export interface Mark {
  entry: TimelineEntry;
  index: number; // in the list of entries
  time: number;
  tone: Tone;
}

export interface Bar {
  from: number;
  to: number;
  tone: Tone;
}

export interface Lane {
  task: string; // '': the job itself
  bars: Bar[];
  marks: Mark[];
}

export interface Model {
  begin: number;
  end: number;
  lanes: Lane[];
  hidden: number; // lanes of tasks that are not shown
}

const kMostLanes = 200;

// The colour of an entry. What is bad is said by its kind or, at the end of a task, by its text.
export function tone_of(entry: TimelineEntry): Tone {
  const kind = entry.kind;
  if (/fail|kill|lost|evict|error|crash/.test(kind)) return 'bad';
  if (/ended|over$/.test(kind)) return /kill|signal|fail|lost|exit(?:ed)?(?: code| with)? [1-9]/i.test(entry.text) ? 'bad' : 'good';
  if (/checkpoint|eval/.test(kind)) return 'good';
  if (/restart|wait|stop|dismiss|refus|note/.test(kind)) return 'warn';
  if (/start|view|join|scale|train|resum/.test(kind)) return 'go';
  return 'off';
}

// "task_started" -> "task started".
export function kind_text(kind: string): string {
  return kind.replaceAll('_', ' ');
}

export function model_of(entries: readonly TimelineEntry[], until: number): Model {
  const lanes = new Map<string, Lane>([['', { task: '', bars: [], marks: [] }]]);
  let begin = Infinity;
  let end = -Infinity;
  entries.forEach((entry, index) => {
    const time = Date.parse(entry.time);
    if (Number.isNaN(time)) return;
    begin = Math.min(begin, time);
    end = Math.max(end, time);
    let lane = lanes.get(entry.task);
    if (!lane) lanes.set(entry.task, (lane = { task: entry.task, bars: [], marks: [] }));
    lane.marks.push({ entry, index, time, tone: tone_of(entry) });
  });
  if (begin > end) return { begin: 0, end: 1, lanes: [], hidden: 0 };
  end = Math.max(end, until, begin + 1);
  const began = Math.min(...[...lanes.values()].flatMap(({ task, marks }) => (task === '' ? [] : marks.map(({ time }) => time))), end);
  for (const lane of lanes.values()) lane.bars = bars_of(lane.marks, lane.task === '' ? end : began, end, lane.task === '');
  const tasks = [...lanes.values()].filter((lane) => lane.task !== '').sort((a, b) => a.task.localeCompare(b.task, 'en', { numeric: true }));
  return {
    begin,
    end,
    lanes: [lanes.get('')!, ...tasks.slice(0, kMostLanes)],
    hidden: Math.max(0, tasks.length - kMostLanes),
  };
}

// `began`: of a task that ends without a start before it, since only its last start is on record.
function bars_of(marks: readonly Mark[], began: number, end: number, is_job: boolean): Bar[] {
  const bars: Bar[] = [];
  let from: number | null = null;
  for (const { entry, time, tone } of marks) {
    if (/start|resum/.test(entry.kind) && !/restarts$/.test(entry.kind)) {
      if (from !== null && !is_job) bars.push({ from, to: time, tone: 'warn' });
      if (from === null || !is_job) from = time;
    } else if (/ended|killed|lost|evicted|over$|^failed|^stopped|^succeeded/.test(entry.kind)) {
      if (from === null && bars.length === 0) from = Math.min(began, time);
      if (from !== null && from < time) bars.push({ from, to: time, tone: tone === 'bad' ? 'bad' : 'good' });
      from = null;
    }
  }
  if (from !== null) bars.push({ from, to: end, tone: 'go' });
  return bars;
}

// About `count` times with equal distances that people count in, in milliseconds from the beginning.
export function ticks(length: number, count: number): number[] {
  const steps = [100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000];
  const step = steps.find((one) => length / one <= count) ?? Math.ceil(length / count / 86_400_000) * 86_400_000;
  const found: number[] = [];
  for (let at = 0; at <= length; at += step) found.push(at);
  return found;
}

// The same as a trace in the format that Perfetto and Chrome open.
export function trace_of(model: Model, job: string): object {
  const events: object[] = [];
  model.lanes.forEach((lane, tid) => {
    events.push({ ph: 'M', pid: 1, tid, name: 'thread_name', args: { name: lane.task || 'job' } });
    for (const bar of lane.bars) events.push({ ph: 'X', pid: 1, tid, name: 'runs', cat: 'task', ts: (bar.from - model.begin) * 1000, dur: (bar.to - bar.from) * 1000 });
    for (const mark of lane.marks)
      events.push({ ph: 'i', s: 't', pid: 1, tid, name: kind_text(mark.entry.kind), cat: mark.entry.kind, ts: (mark.time - model.begin) * 1000, args: { text: mark.entry.text } });
  });
  return { traceEvents: [{ ph: 'M', pid: 1, name: 'process_name', args: { name: job } }, ...events], displayTimeUnit: 'ms' };
}
