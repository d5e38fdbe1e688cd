// The jobs that the filters ask for, live. The newest page is read again after every event and, while jobs run, every
// few seconds (progress and metrics are no events); older pages come when they are scrolled to, or all at once to sort.
import { useEffect, useRef, useState } from 'preact/hooks';
import { get_json } from '../api/client';
import { EventStream } from '../api/stream';
import type { Job, JobEvent, JobPage, Service } from '../api/types';
import { any_active, list_query, merge_page, type Filters } from './job_rows';

const kPageRows = 200;
const kWholeRows = 1000;
const kActiveMs = 3000;
const kIdleMs = 30_000;
const kGatherMs = 250;

interface Loaded {
  rows: Job[];
  next: string | null;
}

export interface JobList {
  rows: readonly Job[] | null;
  complete: boolean;
  error: unknown;
  load_more: () => void;
  refresh: () => void;
}

/** One list's reading and following; `show` gets every change. */
class ListReader {
  private loaded: Loaded | null = null;
  private timer = 0;
  private reading_more = false;
  private readonly stop = new AbortController();
  private stream: EventStream | null = null;

  constructor(
    private readonly filters: Filters,
    private readonly show: (loaded: Loaded | null, error: unknown) => void,
  ) {
    void this.begin();
  }

  close(): void {
    this.stop.abort();
    clearTimeout(this.timer);
    this.stream?.close();
  }

  private async begin(): Promise<void> {
    const service = await get_json<Service>('/v1/service', {}, this.stop.signal).catch(() => null);
    if (this.stop.signal.aborted) return;
    await this.refresh();
    if (this.stop.signal.aborted) return;
    this.stream = new EventStream({
      path: '/v1/events',
      after: String(service?.last_event ?? 0),
      on_event: (event) => {
        if (event.event !== 'job') return;
        const told = JSON.parse(event.data) as JobEvent;
        if (told.kind === 'deleted') this.drop(told.job);
        this.plan(kGatherMs);
      },
    });
  }

  private plan(ms: number): void {
    clearTimeout(this.timer);
    if (!this.stop.signal.aborted) this.timer = window.setTimeout(() => void this.refresh(), ms);
  }

  private drop(id: string): void {
    if (!this.loaded) return;
    this.loaded = { ...this.loaded, rows: this.loaded.rows.filter((row) => row.id !== id) };
    this.show(this.loaded, null);
  }

  private page(before: string | null, limit: number): Promise<JobPage> {
    return get_json<JobPage>('/v1/jobs', { ...list_query(this.filters), before, limit }, this.stop.signal);
  }

  async refresh(): Promise<void> {
    if (document.hidden && this.loaded) return this.plan(kActiveMs);
    try {
      const page = await this.page(null, kPageRows);
      if (this.stop.signal.aborted) return;
      const rows = merge_page(this.loaded?.rows ?? [], page, null);
      const has_older = rows.length > page.jobs.length;
      this.loaded = { rows, next: has_older ? (this.loaded?.next ?? null) : page.next };
      this.show(this.loaded, null);
    } catch (error) {
      if (this.stop.signal.aborted) return;
      this.show(this.loaded, error);
    }
    this.plan(!this.loaded || any_active(this.loaded.rows.slice(0, kPageRows)) ? kActiveMs : kIdleMs);
  }

  async load_more(all: boolean): Promise<void> {
    if (this.reading_more || !this.loaded) return;
    this.reading_more = true;
    try {
      for (let next: string | null = this.loaded.next; next !== null; next = all ? this.loaded.next : null) {
        const page = await this.page(next, all ? kWholeRows : kPageRows);
        if (this.stop.signal.aborted) return;
        const known: ReadonlySet<string> = new Set(this.loaded.rows.map((row) => row.id));
        this.loaded = { rows: [...this.loaded.rows, ...page.jobs.filter((row) => !known.has(row.id))], next: page.next };
        this.show(this.loaded, null);
      }
    } catch (error) {
      if (!this.stop.signal.aborted) this.show(this.loaded, error);
    } finally {
      this.reading_more = false;
    }
  }
}

export function useJobs(filters: Filters, whole: boolean): JobList {
  const [state, set_state] = useState<{ loaded: Loaded | null; error: unknown }>({ loaded: null, error: null });
  const reader = useRef<ListReader | null>(null);
  const key = JSON.stringify(filters);

  useEffect(() => {
    const current = new ListReader(filters, (loaded, error) => set_state({ loaded, error }));
    reader.current = current;
    return () => current.close();
  }, [key]);

  useEffect(() => {
    if (whole && state.loaded?.next) void reader.current?.load_more(true);
  }, [whole, state.loaded?.next]);

  return {
    rows: state.loaded?.rows ?? null,
    complete: state.loaded !== null && state.loaded.next === null,
    error: state.error,
    load_more: () => void reader.current?.load_more(false),
    refresh: () => void reader.current?.refresh(),
  };
}
