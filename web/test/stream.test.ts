import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { sign_in_needed, signed_in } from '../src/api/session';
import type { ServerEvent } from '../src/api/sse_parser';
import { EventStream, lost_streams, type StreamState } from '../src/api/stream';

const kPatience = { timeout: 20_000, interval: 20 };

interface Request {
  path: string;
  last_id: string | undefined;
}

/** A service whose answers are given one after the other: a status, or the text of a stream that breaks off behind it. */
function serve(answers: (number | string)[]): Request[] {
  const requests: Request[] = [];
  vi.stubGlobal('fetch', async (path: string, init: RequestInit): Promise<Response> => {
    requests.push({ path, last_id: (init.headers as Record<string, string>)['Last-Event-ID'] });
    const answer = answers.shift();
    if (answer === undefined) return new Promise(() => undefined);
    return typeof answer === 'number' ? new Response('', { status: answer }) : new Response(answer, { status: 200 });
  });
  return requests;
}

let page: EventTarget & { hidden: boolean };

beforeEach(() => {
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal('document', page);
  vi.stubGlobal('window', globalThis);
  vi.stubGlobal('addEventListener', () => undefined);
  vi.stubGlobal('removeEventListener', () => undefined);
});

afterEach(() => vi.unstubAllGlobals());

describe('EventStream', () => {
  it('goes on behind the last event it saw, after a break and after a refusal that passes', async () => {
    const requests = serve(['id: 4\ndata: a\n\nid: 5\ndata: b\n\ndata: half', 503, 'id: 6\ndata: c\n\n']);
    const events: ServerEvent[] = [];
    const states: StreamState[] = [];
    const stream = new EventStream({ path: '/v1/events', after: '3', on_event: (event) => events.push(event), on_state: (state) => states.push(state) });
    await vi.waitFor(() => expect(requests).toHaveLength(4), kPatience);
    expect(requests.map((request) => request.last_id)).toEqual(['3', '5', '5', '6']);
    expect(events.map((event) => event.data)).toEqual(['a', 'b', 'c']);
    expect(states.slice(0, 3)).toEqual(['connecting', 'live', 'reconnecting']);
    expect(lost_streams.value).toBe(1);
    stream.close();
    expect(lost_streams.value).toBe(0);
  });

  it('ends with the event that says so, and where asking again does not help', async () => {
    const requests = serve(['event: end\ndata: {}\n\n', 404]);
    const refused: number[] = [];
    const states: StreamState[] = [];
    const open = (): EventStream =>
      new EventStream({ path: '/x', on_event: () => undefined, on_state: (state) => states.push(state), on_refused: (status) => refused.push(status) });
    open();
    await vi.waitFor(() => expect(states.at(-1)).toBe('ended'), kPatience);
    open();
    await vi.waitFor(() => expect(refused).toEqual([404]), kPatience);
    expect(requests).toHaveLength(2);
  });

  it('waits for the sign-in and then goes on', async () => {
    const requests = serve(['id: 1\ndata: a\n\n', 401]);
    const stream = new EventStream({ path: '/x', on_event: () => undefined });
    await vi.waitFor(() => expect(sign_in_needed.value).toBe(true), kPatience);
    expect(requests).toHaveLength(2);
    signed_in();
    await vi.waitFor(() => expect(requests).toHaveLength(3), kPatience);
    expect(requests[2]?.last_id).toBe('1');
    stream.close();
  });
});
