// The metrics of the runs that are looked at: read once, grouped by the service, then kept up to date by a
// stream that goes on behind what was read. Tells who draws a metric that it has changed, seldom enough that
// drawing takes a small part of the time, and once a frame at most.
import { get_json, job_path } from '../api/client';
import { EventStream } from '../api/stream';
import { Store } from '../api/store';
import { has_ended, type JobState, type Metric, type Series } from '../api/types';
import { Curve } from './curve';

export interface Run {
  id: string;
  name: string;
  state: JobState;
  started: number; // milliseconds since 1970; 0: not yet
  ended: number; // the same
}

export interface Range {
  min: number;
  max: number;
}

const kMostStreams = 2; // browsers allow six connections to one host
const kPollMs = 5000;
const kLateMs = 60_000; // so long after its end the service may still read values from a job's log
const kPoints = 1000;
const kShare = 8; // drawing takes at most one part in so many of the time

class RunCurves {
  readonly curves = new Map<string, Curve>();
  private stream: EventStream | null = null;
  private timer = 0;
  private readonly abort = new AbortController();

  constructor(
    readonly run: Run,
    private readonly streams: boolean,
    private readonly changed: (name: string) => void,
  ) {}

  async start(): Promise<void> {
    await this.read();
    if (this.abort.signal.aborted) return;
    if (this.streams && !has_ended(this.run.state)) this.follow();
    else if (this.may_grow()) this.timer = window.setInterval(() => this.read_again(), kPollMs);
  }

  close(): void {
    this.abort.abort();
    this.stream?.close();
    clearInterval(this.timer);
  }

  private may_grow(): boolean {
    return !has_ended(this.run.state) || Date.now() - this.run.ended < kLateMs;
  }

  private read_again(): void {
    if (!this.may_grow()) clearInterval(this.timer);
    this.read().catch(() => undefined); // the curves stay as they are until it answers again
  }

  async detail(name: string, from: number, to: number): Promise<Curve | null> {
    const query = { name, points: kPoints, from_step: Math.floor(from), to_step: Math.ceil(to) };
    const { series } = await get_json<{ series: Series[] }>(job_path(this.run.id, 'series'), query, this.abort.signal);
    return series[0] ? new Curve(series[0]) : null;
  }

  private async read(): Promise<void> {
    const { series } = await get_json<{ series: Series[] }>(job_path(this.run.id, 'series'), { points: kPoints }, this.abort.signal);
    for (const one of series) {
      this.curves.set(one.name, new Curve(one));
      this.changed(one.name);
    }
  }

  private follow(): void {
    const ids = [...this.curves.values()].map((curve) => curve.last_id);
    const after = ids.length > 0 ? Math.min(...ids) : 0;
    this.stream = new EventStream({
      path: job_path(this.run.id, 'metrics'),
      ...(after > 0 ? { after: String(after) } : {}),
      on_event: (event) => {
        if (event.event !== 'metric') return;
        const metric = JSON.parse(event.data) as Metric;
        let curve = this.curves.get(metric.name);
        if (!curve) this.curves.set(metric.name, (curve = Curve.empty(metric.name)));
        if (curve.append(metric)) this.changed(metric.name);
      },
    });
  }
}

export class Board {
  readonly names = new Store<readonly string[]>([]);
  readonly range = new Store<Range | null>(null);
  readonly loaded = new Store(false);
  readonly failed = new Store<unknown>(null);
  private readonly all: RunCurves[];
  private readonly listeners = new Map<string, Set<() => void>>();
  private readonly dirty = new Set<string>();
  private frame = 0;
  private timer = 0;
  private next = 0;

  constructor(readonly runs: readonly Run[]) {
    let streams = 0;
    this.all = runs.map((run) => {
      const follows = !has_ended(run.state) && streams++ < kMostStreams;
      return new RunCurves(run, follows, (name) => this.changed(name));
    });
    void Promise.allSettled(this.all.map((run) => run.start())).then((results) => {
      const bad = results.find((result) => result.status === 'rejected');
      if (bad) this.failed.set(bad.reason);
      this.loaded.set(true);
    });
  }

  close(): void {
    for (const run of this.all) run.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
  }

  curves(name: string): (Curve | undefined)[] {
    return this.all.map((run) => run.curves.get(name));
  }

  detail(name: string, from: number, to: number): Promise<(Curve | null)[]> {
    return Promise.all(this.all.map((run) => (run.curves.has(name) ? run.detail(name, from, to) : null)));
  }

  watch(name: string, listener: () => void): () => void {
    const set = this.listeners.get(name) ?? new Set();
    this.listeners.set(name, set.add(listener));
    return () => set.delete(listener);
  }

  private changed(name: string): void {
    if (!this.names.value.includes(name)) this.names.set([...this.names.value, name].sort(by_name));
    this.dirty.add(name);
    if (this.frame !== 0 || this.timer !== 0) return;
    const wait = this.next - performance.now();
    if (wait > 4) this.timer = window.setTimeout(() => this.ask_frame(), wait);
    else this.ask_frame();
  }

  private ask_frame(): void {
    this.timer = 0;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const began = performance.now();
      const names = [...this.dirty];
      this.dirty.clear();
      for (const name of names) for (const listener of this.listeners.get(name) ?? []) listener();
      const now = performance.now();
      this.next = now + Math.min(1000, (now - began) * kShare);
    });
  }
}

// What people look for first: losses, then accuracies.
function rank(name: string): number {
  return /loss/i.test(name) ? 0 : /acc/i.test(name) ? 1 : 2;
}

// Numbers in names count as numbers: layer 2 before layer 10.
export function by_name(a: string, b: string): number {
  return rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true });
}

// "train/loss" belongs to "train" where others do; the rest stands together, first.
export function groups_of(names: readonly string[]): { group: string; names: string[] }[] {
  const prefix = (name: string): string => name.slice(0, Math.max(0, name.indexOf('/')));
  const counts = new Map<string, number>();
  for (const name of names) counts.set(prefix(name), (counts.get(prefix(name)) ?? 0) + 1);
  const groups = new Map<string, string[]>();
  for (const name of names) {
    const group = counts.get(prefix(name))! > 1 ? prefix(name) : '';
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  const place = ([group, list]: [string, string[]]): number => (group === '' ? -1 : Math.min(...list.map(rank)));
  return [...groups].sort((a, b) => place(a) - place(b) || by_name(a[0], b[0])).map(([group, list]) => ({ group, names: list }));
}
