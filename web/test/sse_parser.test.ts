import { describe, expect, it } from 'vitest';
import { backoff_ms } from '../src/api/stream';
import { SseParser, type ServerEvent } from '../src/api/sse_parser';

const kText = 'retry: 1000\n\n: comment\n\nevent: job\nid: 7\ndata: {"a":\ndata: 1}\n\ndata: plain\r\n\r\nid: 9\rdata:no space\r\r';

const kEvents: ServerEvent[] = [
  { event: 'job', id: '7', data: '{"a":\n1}' },
  { event: 'message', id: '7', data: 'plain' },
  { event: 'message', id: '9', data: 'no space' },
];

describe('SseParser', () => {
  it('reads events with any line ending; a comment is none', () => {
    // The last CR might be half of a CRLF: the event is known when the next character is.
    expect(new SseParser().feed(`${kText}\n:`)).toEqual(kEvents);
  });

  it('gives the same events however the text is cut', () => {
    for (let size = 1; size < 12; ++size) {
      const parser = new SseParser();
      const events: ServerEvent[] = [];
      const text = `${kText}:`;
      for (let at = 0; at < text.length; at += size) events.push(...parser.feed(text.slice(at, at + size)));
      expect(events).toEqual(kEvents);
    }
  });

  it('keeps an unfinished event to itself', () => {
    const parser = new SseParser();
    expect(parser.feed('data: half')).toEqual([]);
    expect(parser.feed(' more\n')).toEqual([]);
    expect(parser.feed('\n')).toEqual([{ event: 'message', id: '', data: 'half more' }]);
  });
});

describe('backoff_ms', () => {
  it('grows from half a second to ten, give or take a quarter', () => {
    expect(backoff_ms(0, 0.5)).toBe(500);
    expect(backoff_ms(2, 0)).toBe(1500);
    expect(backoff_ms(50, 1)).toBe(12_500);
  });
});
