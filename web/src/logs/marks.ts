// Cuts spans where a search has found something.
import type { Span } from './ansi';

export interface Marked extends Span {
  marked: boolean;
}

const kMostMarks = 100;

export function mark(spans: readonly Span[], needle: string, matches_case: boolean): Marked[] {
  if (needle === '') return spans.map((span) => ({ ...span, marked: false }));
  const ranges = ranges_of(spans.map((span) => span.text).join(''), needle, matches_case);
  const pieces: Marked[] = [];
  let at = 0; // of the span in the line
  let range = 0;
  for (const span of spans) {
    let start = 0;
    while (start < span.text.length) {
      while (range < ranges.length && ranges[range]![1] <= at + start) ++range;
      const [from, to] = ranges[range] ?? [Infinity, Infinity];
      const marked = from <= at + start;
      const end = Math.min(span.text.length, (marked ? to : from) - at);
      pieces.push({ text: span.text.slice(start, end), style: span.style, marked });
      start = end;
    }
    at += span.text.length;
  }
  return pieces;
}

function ranges_of(text: string, needle: string, matches_case: boolean): [number, number][] {
  // Lower case may have another length (as with some Turkish letters): then case counts.
  const lower = text.toLowerCase();
  const fold = !matches_case && lower.length === text.length;
  const where = fold ? lower : text;
  const what = fold ? needle.toLowerCase() : needle;
  const ranges: [number, number][] = [];
  for (let at = where.indexOf(what); at >= 0 && ranges.length < kMostMarks; at = where.indexOf(what, at + what.length))
    ranges.push([at, at + what.length]);
  return ranges;
}
