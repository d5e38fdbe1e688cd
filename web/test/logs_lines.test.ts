import { describe, expect, test } from 'vitest';
import { kLongestLine, leading_time, LineSplitter, utf8_length, type Line } from '../src/logs/lines';
import { cursor_text, parse_cursor } from '../src/logs/cursor';
import { mark } from '../src/logs/marks';
import { plain } from '../src/logs/ansi';

function split(pieces: (string | Uint8Array)[]): { lines: string[]; partial: Line | null; all: Line[] } {
  const splitter = new LineSplitter();
  const all: Line[] = [];
  for (const piece of pieces)
    if (typeof piece === 'string') splitter.add_text(piece, (line) => all.push(line));
    else splitter.add_bytes(piece, (line) => all.push(line));
  return { lines: all.map((line) => line.text), partial: splitter.partial(), all };
}

describe('lines', () => {
  test('are the same however the text is cut', () => {
    const text = 'one\ntwo\r\n\nfour: ü€😀\nfive';
    const bytes = new TextEncoder().encode(text);
    for (let size = 1; size <= bytes.length; ++size) {
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
      const { lines, partial } = split(pieces);
      expect(lines).toEqual(['one', 'two', '', 'four: ü€😀']);
      expect(partial!.text).toBe('five');
    }
  });

  test('a long one is cut and counted', () => {
    const { all } = split(['x'.repeat(10_000_000), 'y'.repeat(1000) + '\nnext\n']);
    expect(all[0]!.text.length).toBe(kLongestLine);
    expect(all[0]!.cut).toBe(10_001_000 - kLongestLine);
    expect(all[1]).toEqual({ text: 'next', cut: 0 });
  });

  test('of a progress bar the last drawing counts', () => {
    expect(split(['\r 10%', '\r 20%', '\r100%\n', 'done\r\n']).lines).toEqual(['100%', 'done']);
    expect(split(['a\rb\rc']).partial!.text).toBe('c');
    expect(split(['  1%\r', '  2%\r']).partial!.text).toBe('  2%');
    expect(split(['x'.repeat(100_000) + '\r', 'end\n']).lines[0]!.slice(0, 9)).toBe('end');
    expect(split(['100%\r', '\r\n']).lines).toEqual(['']);
  });

  test('bytes that are no UTF-8 become a sign', () => {
    expect(split([new Uint8Array([0x61, 0xff, 0xfe, 0x62, 10])]).lines).toEqual(['a\ufffd\ufffdb']);
  });

  test('utf8_length', () => {
    for (const text of ['', 'a', 'ü€', '😀x', 'a\ufffd']) expect(utf8_length(text)).toBe(new TextEncoder().encode(text).length);
    expect(utf8_length('aü€', 1, 2)).toBe(2);
  });

  test('times that lines begin with', () => {
    expect(leading_time('2026-11-18T11:05:37.123Z step 1')).toEqual({ time: '2026-11-18T11:05:37.123Z', rest: 25 });
    expect(leading_time('[2026-11-18 11:05:37,123] x')!.time).toBe('2026-11-18 11:05:37,123');
    expect(leading_time('11:05:37 x')!.time).toBe('11:05:37');
    expect(leading_time('I1118 11:05:37.123456 7 file.cc:1] x')!.time).toBe('1118 11:05:37.123456');
    for (const text of ['step 3', '', '12 loss', '2026 was']) expect(leading_time(text)).toBeNull();
  });
});

describe('cursors', () => {
  test('are read and written as the service does', () => {
    const text = '2;worker:0=4711;worker:1=12';
    expect(cursor_text(parse_cursor(text)!)).toBe(text);
    expect(parse_cursor('3')).toEqual({ attempt: 3, offsets: new Map() });
    for (const wrong of ['', 'x', '1;', '1;a', '1;=3', '1;a=', '1;a=-1', '99999999999;a=1']) expect(parse_cursor(wrong), wrong).toBeNull();
  });
});

describe('marks', () => {
  const red = { ...plain, fg: '1' };
  test('go across spans and keep the text', () => {
    const spans = [{ text: 'an Err', style: plain }, { text: 'or and ERROR', style: red }];
    const pieces = mark(spans, 'error', false);
    expect(pieces.map((piece) => [piece.text, piece.marked])).toEqual([
      ['an ', false], ['Err', true], ['or', true], [' and ', false], ['ERROR', true],
    ]);
    expect(mark(spans, 'error', true).some((piece) => piece.marked)).toBe(false);
    expect(mark(spans, '', false).length).toBe(2);
  });
  test('are bounded', () => {
    const pieces = mark([{ text: 'ab'.repeat(10_000), style: plain }], 'a', true);
    expect(pieces.length).toBeLessThan(300);
    expect(pieces.map((piece) => piece.text).join('')).toBe('ab'.repeat(10_000));
  });
});
