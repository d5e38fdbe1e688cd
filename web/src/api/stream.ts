// A server-sent event stream that is taken up again where it broke: after a lost connection, a restarted service,
// a silent peer, or a tab that was hidden. Nothing is missed or seen twice, because the id of the last event is sent again.
//
// Browsers allow six connections to a host over HTTP/1.1, so a hidden tab gives its stream back.
import { wait_for_sign_in } from './session';
import { SseParser, type ServerEvent } from './sse_parser';
import { Store } from './store';

export type StreamState = 'connecting' | 'live' | 'reconnecting' | 'paused' | 'ended';

export interface StreamOptions {
  /** The address with its query; `after` is not in it. */
  path: string;
  /** Go on behind this id. */
  after?: string;
  on_event: (event: ServerEvent) => void;
  on_state?: (state: StreamState) => void;
  /** An answer that repeating does not help (400, 403, 404): the stream has ended. */
  on_refused?: (status: number) => void;
}

const kSilenceMs = 45_000; // The service sends a comment every 15 s.
const kHiddenMs = 20_000;

/** How many open streams have lost the service; the shell shows it. */
export const lost_streams = new Store(0);

/** Waiting time before try number `failures`: 0.5 s, doubled up to 10 s, spread so that many pages do not come at once. */
export function backoff_ms(failures: number, random: number): number {
  return Math.min(10_000, 500 * 2 ** Math.min(failures, 10)) * (0.75 + random / 2);
}

export class EventStream {
  private last_id: string;
  private failures = 0;
  private state: StreamState | null = null;
  private closed = false;
  private connection: AbortController | null = null;
  private wake: (() => void) | null = null;
  private hidden_timer = 0;

  constructor(private readonly options: StreamOptions) {
    this.last_id = options.after ?? '';
    document.addEventListener('visibilitychange', this.on_visibility);
    addEventListener('online', this.on_online);
    void this.run();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    document.removeEventListener('visibilitychange', this.on_visibility);
    removeEventListener('online', this.on_online);
    clearTimeout(this.hidden_timer);
    this.enter('ended');
    this.connection?.abort();
    this.wake?.();
  }

  private enter(state: StreamState): void {
    if (state === this.state) return;
    if (this.state === 'reconnecting') lost_streams.set(lost_streams.value - 1);
    if (state === 'reconnecting') lost_streams.set(lost_streams.value + 1);
    this.state = state;
    this.options.on_state?.(state);
  }

  private on_visibility = (): void => {
    clearTimeout(this.hidden_timer);
    if (document.hidden) {
      this.hidden_timer = window.setTimeout(() => {
        this.enter('paused');
        this.connection?.abort();
      }, kHiddenMs);
    } else if (this.state === 'paused') {
      this.enter('connecting');
      this.wake?.();
    }
  };

  private on_online = (): void => {
    this.failures = 0;
    if (this.state !== 'paused') this.wake?.();
  };

  private async run(): Promise<void> {
    this.enter('connecting');
    while (!this.closed) {
      if (this.is_paused()) {
        await this.pause(null);
        continue;
      }
      await this.connect();
      if (this.closed || this.is_paused()) continue;
      this.enter('reconnecting');
      await this.pause(backoff_ms(this.failures++, Math.random()));
    }
  }

  /** Asked for by the tab's visibility, at any time. */
  private is_paused(): boolean {
    return this.state === 'paused';
  }

  /** Until woken, or `ms` have passed. */
  private pause(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === null ? 0 : window.setTimeout(() => this.wake?.(), ms);
      this.wake = () => {
        clearTimeout(timer);
        this.wake = null;
        resolve();
      };
    });
  }

  private async connect(): Promise<void> {
    const connection = new AbortController();
    this.connection = connection;
    let silence = 0;
    const heard = (): void => {
      clearTimeout(silence);
      silence = window.setTimeout(() => connection.abort(), kSilenceMs);
    };
    heard();
    try {
      const response = await fetch(this.options.path, {
        credentials: 'same-origin',
        cache: 'no-store',
        headers: { Accept: 'text/event-stream', ...(this.last_id ? { 'Last-Event-ID': this.last_id } : {}) },
        signal: connection.signal,
      });
      if (response.status === 401) {
        await wait_for_sign_in();
        this.failures = 0;
        return;
      }
      if (response.status >= 400 && response.status < 500 && response.status !== 429) {
        this.options.on_refused?.(response.status);
        this.close();
        return;
      }
      if (!response.ok || !response.body) return;
      this.enter('live');
      await this.read(response.body, heard);
    } catch {
      // Lost, or aborted by us: run() decides what follows from the state.
    } finally {
      clearTimeout(silence);
      connection.abort();
      this.connection = null;
    }
  }

  private async read(body: ReadableStream<Uint8Array>, heard: () => void): Promise<void> {
    const parser = new SseParser();
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.closed) return;
      heard();
      this.failures = 0;
      for (const event of parser.feed(decoder.decode(value, { stream: true }))) {
        if (event.id) this.last_id = event.id;
        this.options.on_event(event);
        if (event.event === 'end') this.close();
        if (this.closed) return;
      }
    }
  }
}
