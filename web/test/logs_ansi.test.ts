import { describe, expect, test } from 'vitest';
import { kMostSpans, parse_ansi, plain, style_after, without_ansi } from '../src/logs/ansi';

const text_of = (line: string): string => parse_ansi(line).spans.map((span) => span.text).join('');

describe('colours of terminals', () => {
  test('a line without any is one span', () => {
    expect(parse_ansi('step 3').spans).toEqual([{ text: 'step 3', style: plain }]);
    expect(parse_ansi('').spans).toEqual([]);
  });

  test('16, 256 and true colours, weight, and their end', () => {
    const { spans, style } = parse_ansi('a\x1b[1;31mb\x1b[38;5;208mc\x1b[48;2;1;2;3md\x1b[0me\x1b[94mf');
    expect(spans.map((span) => [span.text, span.style.fg, span.style.bg, span.style.bold])).toEqual([
      ['a', null, null, false],
      ['b', '1', null, true],
      ['c', '#ff8700', null, true],
      ['d', '#ff8700', '#010203', true],
      ['e', null, null, false],
      ['f', '12', null, false],
    ]);
    expect(style.fg).toBe('12');
    expect(style_after('\x1b[32mx', plain).fg).toBe('2');
  });

  test('the next line goes on in the style in which this one ended', () => {
    const first = parse_ansi('\x1b[31mred');
    expect(parse_ansi('still', first.style).spans[0]!.style.fg).toBe('1');
  });

  test('movement, titles and links leave nothing behind', () => {
    expect(text_of('\x1b[2J\x1b[10;4Ha\x1b]0;title\x07b\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\c\x1b(Bd')).toBe('ablinkcd');
    expect(without_ansi('\x1b[1mx\x1b[0my')).toBe('xy');
  });

  test('wrong colour numbers are not colours', () => {
    for (const codes of ['38;5;999', '38;2;1;2', '38;5;-1', '38;9;1', '38', '48;5;1.5', '99999999999', 'nonsense'])
      expect(parse_ansi(`\x1b[${codes}mx`).spans[0]!.style.fg, codes).toBeNull();
  });

  test('sequences that never end lose at most their beginning', () => {
    expect(text_of('a\x1b]0;' + 'x'.repeat(1000)).length).toBeGreaterThan(900);
    expect(text_of('a\x1b[' + '1;'.repeat(1000)).length).toBeGreaterThan(900);
    expect(text_of('a\x1b')).toBe('a');
  });

  test('a million colour changes give few spans, all of the text, and soon', () => {
    const bomb = Array.from({ length: 200_000 }, (_, i) => `\x1b[${31 + (i % 7)}mx`).join('');
    const began = performance.now();
    const { spans } = parse_ansi(bomb);
    expect(spans.length).toBeLessThanOrEqual(kMostSpans);
    expect(spans.map((span) => span.text).join('')).toBe('x'.repeat(200_000));
    expect(performance.now() - began).toBeLessThan(5000);
  });

  test('control and direction characters can be seen', () => {
    expect(text_of('a\x00b\x08c\u202ed\x7f')).toBe('a\u2400b\u2408c\ufffdd\u2421');
    expect(text_of('a\tb')).toBe('a\tb');
  });
});
