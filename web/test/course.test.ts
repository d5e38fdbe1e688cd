import { describe, expect, it } from 'vitest';
import type { JobState, Metric } from '../src/api/types';
import { course_of, main_curve, rate_curve, short_name, with_last, with_metrics } from '../src/job/course';
import { course_geometry, entry_sentence } from '../src/job/course_geometry';
import { allowed_actions, elastic_range } from '../src/job/job_rules';

function metric(id: number, value: number | null, name = 'loss'): Metric {
  return { id, name, step: id, value, time: new Date(id * 1000).toISOString() };
}

const kStart = course_of([{ name: 'loss', count: 2, last_id: 2, step: [1, 2], time: [1000, 2000], value: [4, 3] }]);

describe('the course of a job', () => {
  it('goes on with what came since, once', () => {
    const course = with_metrics(kStart, [metric(2, 3), metric(3, 2), metric(4, 1, 'other')]);
    expect(course.last_id).toBe(4);
    expect(course.curves.get('loss')).toMatchObject({ last: 2, step: 3, value: [4, 3, 2] });
    expect(course.curves.get('other')).toMatchObject({ value: [1] });
    expect(with_metrics(course, [])).toBe(course);
  });

  it('shows the last value itself, not the mean of the last group', () => {
    const course = with_last(kStart, [metric(1, 9), metric(2, 2.5), metric(3, 1)]);
    expect(course.curves.get('loss')).toMatchObject({ last: 2.5, step: 2, value: [4, 3] });
  });

  it('stays bounded, however long the page is open', () => {
    let course = kStart;
    for (let id = 3; id < 20_000; ++id) course = with_metrics(course, [metric(id, 1 / id)]);
    expect(course.curves.get('loss')?.value.length).toBeLessThanOrEqual(1200);
    expect(course.curves.get('loss')?.step).toBe(19_999);
  });
});

describe('metrics of the header', () => {
  it('are the loss and the rate of samples', () => {
    const course = (counts: Record<string, number>) =>
      course_of(Object.entries(counts).map(([name, count]) => ({ name, count, last_id: 1, step: [1], time: [1], value: [1] })));
    expect(main_curve(course({ accuracy: 900, loss: 3, 'train/loss': 500 }))?.name).toBe('train/loss');
    expect(main_curve(course({ accuracy: 9, other: 8 }))?.name).toBe('accuracy');
    expect(main_curve(course({}))).toBeNull();
    expect(rate_curve(course({ loss: 1, 'speed/samples_per_second': 1 }))?.name).toBe('speed/samples_per_second');
    expect(rate_curve(course({ 'samples/s': 1 }))?.name).toBe('samples/s');
    expect(rate_curve(course({ samples: 1, resamples_per_s: 1 }))).toBeNull();
    expect(short_name('speed/samples_per_second')).toBe('samples per second');
  });
});

describe('course_geometry', () => {
  const curve = { name: 'loss', count: 4, step: 3, last: 1, time: [0, 1000, 2000, 3000], value: [4, null, 2, 1] };

  it('marks what changes who takes part, where it happened', () => {
    const entries = [
      { time: new Date(1500).toISOString(), kind: 'view', task: '', text: 'view 2' },
      { time: new Date(1500).toISOString(), kind: 'checkpoint', task: '', text: 'kept' },
      { time: new Date(900_000).toISOString(), kind: 'view', task: '', text: 'long after the curve' },
    ];
    expect(course_geometry(curve, entries, 300, 100)?.marks).toEqual([{ x: 150, kind: 'view', text: 'view 2' }]);
  });

  it('makes room for what happened a moment ago', () => {
    const entries = [{ time: new Date(6000).toISOString(), kind: 'evicted', task: 'worker:1', text: 'killed' }];
    const geometry = course_geometry(curve, entries, 300, 100);
    expect(geometry?.marks[0]?.x).toBe(300);
    expect(geometry?.lines[0]).toMatch(/^100.0,.* 150.0,/);
  });

  it('leaves a gap where a value was not finite', () => {
    expect(course_geometry(curve, [], 300, 100)?.lines).toEqual(['200.0,66.0 300.0,98.0']);
  });

  it('draws nothing out of one point', () => {
    expect(course_geometry({ ...curve, time: [0], value: [1] }, [], 300, 100)).toBeNull();
  });
});

describe('entry_sentence', () => {
  const entry = (kind: string, task: string, text: string) => entry_sentence({ time: '', kind, task, text });

  it('says whose it is and what it is, once', () => {
    expect(entry('task_ended', 'worker:1', 'SIGKILL')).toBe('worker:1 ended: SIGKILL');
    expect(entry('checkpoint', '', 'step-00000100')).toBe('checkpoint step-00000100');
    expect(entry('view', '', 'view 2: worker:1 joined')).toBe('view 2: worker:1 joined');
    expect(entry('note', 'worker:1', 'worker:1 waits')).toBe('worker:1 waits');
    expect(entry('started', '', '')).toBe('started');
  });
});

describe('what a job allows', () => {
  it('follows its state', () => {
    const actions = (state: JobState, spec = {}, engine = 'local') => {
      const allowed = Object.entries(allowed_actions({ state, spec, engine }));
      return allowed.flatMap(([name, is_allowed]) => (is_allowed ? [name] : [])).join(' ');
    };
    expect(actions('running', { elastic: { min: 1, max: 4 } })).toBe('stop scale clone');
    expect(actions('running')).toBe('stop clone');
    expect(actions('stopping')).toBe('clone');
    expect(actions('failed')).toBe('resume clone remove');
    expect(actions('succeeded')).toBe('clone remove');
    expect(actions('failed', {}, 'attached')).toBe('remove');
    expect(elastic_range({ elastic: 'yes' })).toBeNull();
  });
});
