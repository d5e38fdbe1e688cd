import { describe, expect, test } from 'vitest';
import { kind_text, model_of, ticks, tone_of, trace_of } from '../src/timeline/timeline_model';

const at = (seconds: number, kind: string, task = '', text = '') => ({ time: new Date(seconds * 1000).toISOString(), kind, task, text });

const entries = [
  at(0, 'submitted'),
  at(1, 'started'),
  at(2, 'task_started', 'worker:10'),
  at(2, 'task_started', 'worker:2'),
  at(5, 'task_ended', 'worker:2', 'killed by signal 9'),
  at(6, 'view', '', 'view 2: 1 member'),
  at(7, 'task_started', 'worker:2', 'again'),
];

describe('a timeline', () => {
  test('has a lane for the job and one a task, in the order of their numbers', () => {
    const model = model_of(entries, 10_000);
    expect(model.lanes.map((lane) => lane.task)).toEqual(['', 'worker:2', 'worker:10']);
    expect([model.begin, model.end]).toEqual([0, 10_000]);
  });

  test('a task that was killed and started again has two bars', () => {
    const lane = model_of(entries, 10_000).lanes[1]!;
    expect(lane.bars).toEqual([
      { from: 2000, to: 5000, tone: 'bad' },
      { from: 7000, to: 10_000, tone: 'go' },
    ]);
  });

  test('a task of which only the last start is on record has a bar before its end, too', () => {
    const model = model_of([at(0, 'submitted'), at(1, 'task_started', 'worker:0'), at(4, 'evicted', 'worker:1'), at(5, 'task_started', 'worker:1')], 9000);
    expect(model.lanes[2]!.bars).toEqual([
      { from: 1000, to: 4000, tone: 'bad' },
      { from: 5000, to: 9000, tone: 'go' },
    ]);
    expect(model.lanes[0]!.bars).toEqual([]);
  });

  test('tones', () => {
    expect(tone_of(at(0, 'task_ended', 'w', 'exit code 0'))).toBe('good');
    expect(tone_of(at(0, 'task_ended', 'w', 'exit code 1'))).toBe('bad');
    expect(tone_of(at(0, 'evicted'))).toBe('bad');
    expect(tone_of(at(0, 'view'))).toBe('go');
    expect(tone_of(at(0, 'checkpoint'))).toBe('good');
    expect(tone_of(at(0, 'something'))).toBe('off');
    expect(kind_text('task_started')).toBe('task started');
  });

  test('nothing, and times that are none', () => {
    expect(model_of([], 5).lanes).toEqual([]);
    expect(model_of([{ time: 'soon', kind: 'x', task: '', text: '' }], 5).lanes).toEqual([]);
  });

  test('a thousand tasks are bounded', () => {
    const many = Array.from({ length: 1000 }, (_, i) => at(1, 'task_started', `worker:${i}`));
    const model = model_of(many, 2000);
    expect([model.lanes.length, model.hidden]).toEqual([201, 800]);
  });

  test('ticks', () => {
    expect(ticks(10_000, 5)).toEqual([0, 2000, 4000, 6000, 8000, 10_000]);
    expect(ticks(40 * 86_400_000, 5).length).toBeLessThanOrEqual(6);
    expect(ticks(1, 5)).toEqual([0]);
  });

  test('a trace holds every entry', () => {
    const trace = trace_of(model_of(entries, 10_000), 'a job') as { traceEvents: { ph: string; dur?: number }[] };
    expect(trace.traceEvents.filter((event) => event.ph === 'i').length).toBe(entries.length);
    expect(trace.traceEvents.filter((event) => event.ph === 'X').every((event) => event.dur! >= 0)).toBe(true);
  });
});
