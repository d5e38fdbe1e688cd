// Colours of terminals in log lines. Input is hostile: a line may hold any bytes, sequences that never
// end, and a million colour changes. The work is linear in the text, the result has at most `kMostSpans`
// pieces, and nothing but colours and weight ever comes out of a sequence: no links, titles or movement.

export interface Style {
  fg: string | null; // '0'..'15': a colour of the palette; '#rrggbb': this colour
  bg: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
}

export interface Span {
  text: string;
  style: Style;
}

export const kMostSpans = 200;
const kLongestSequence = 256;

export const plain: Style = Object.freeze({
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
});

// The spans of a line that begins in style `from`, and the style in which the next line begins.
export function parse_ansi(line: string, from: Style = plain): { spans: Span[]; style: Style } {
  const spans: Span[] = [];
  let style = from;
  let text = '';
  let at = 0;
  while (at < line.length) {
    const escape = next_escape(line, at);
    text += visible(line.slice(at, escape));
    if (escape === line.length) break;
    const sequence = sequence_at(line, escape);
    at = escape + sequence.length;
    if (sequence.sgr === null) continue;
    const next = apply_sgr(style, sequence.sgr);
    if (same(next, style)) continue;
    if (text !== '') {
      if (spans.length < kMostSpans - 1) spans.push({ text, style });
      else continue; // the rest of the line stays in one piece
      text = '';
    }
    style = next;
  }
  if (text !== '') spans.push({ text, style });
  return { spans, style };
}

// The style behind a line, without its spans.
export function style_after(line: string, from: Style): Style {
  let style = from;
  let at = 0;
  while ((at = next_escape(line, at)) < line.length) {
    const sequence = sequence_at(line, at);
    if (sequence.sgr !== null) style = apply_sgr(style, sequence.sgr);
    at += sequence.length;
  }
  return style;
}

export function without_ansi(line: string): string {
  let text = '';
  let at = 0;
  while (at < line.length) {
    const escape = next_escape(line, at);
    text += visible(line.slice(at, escape));
    if (escape === line.length) break;
    at = escape + sequence_at(line, escape).length;
  }
  return text;
}

function next_escape(line: string, from: number): number {
  const at = line.indexOf('\x1b', from);
  return at < 0 ? line.length : at;
}

// What stands at an escape character: its length, and the parameters where it sets colours.
function sequence_at(line: string, at: number): { length: number; sgr: string | null } {
  const kind = line[at + 1];
  const end = Math.min(line.length, at + kLongestSequence);
  if (kind === '[') {
    for (let i = at + 2; i < end; ++i) {
      const code = line.charCodeAt(i);
      if (code >= 0x40 && code <= 0x7e)
        return { length: i + 1 - at, sgr: line[i] === 'm' ? line.slice(at + 2, i) : null };
      if (code < 0x20 || code > 0x3f) return { length: i - at, sgr: null };
    }
    return { length: 2, sgr: null };
  }
  // Strings for the terminal (titles, links): up to BEL or ESC \.
  if (kind === ']' || kind === 'P' || kind === 'X' || kind === '^' || kind === '_') {
    for (let i = at + 2; i < end; ++i) {
      if (line[i] === '\x07') return { length: i + 1 - at, sgr: null };
      if (line[i] === '\x1b') return { length: (line[i + 1] === '\\' ? i + 2 : i) - at, sgr: null };
    }
    return { length: 2, sgr: null };
  }
  if (kind === '(' || kind === ')' || kind === '#') return { length: Math.min(3, line.length - at), sgr: null };
  return { length: kind === undefined ? 1 : 2, sgr: null };
}

function apply_sgr(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/, 32).map((text) => (text === '' ? 0 : Number(text)));
  const next: Style = { ...style };
  for (let i = 0; i < codes.length; ++i) {
    const code = codes[i]!;
    if (code === 0) Object.assign(next, plain);
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 7) next.inverse = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 23) next.italic = false;
    else if (code === 24) next.underline = false;
    else if (code === 27) next.inverse = false;
    else if (code >= 30 && code <= 37) next.fg = String(code - 30);
    else if (code === 39) next.fg = null;
    else if (code >= 40 && code <= 47) next.bg = String(code - 40);
    else if (code === 49) next.bg = null;
    else if (code >= 90 && code <= 97) next.fg = String(code - 82);
    else if (code >= 100 && code <= 107) next.bg = String(code - 92);
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(codes, i + 1);
      i += used;
      if (colour !== null) next[code === 38 ? 'fg' : 'bg'] = colour;
    }
  }
  return next;
}

// 5;N or 2;R;G;B: the colour, and how many codes it took.
function extended(codes: number[], at: number): [string | null, number] {
  const is_byte = (n: number | undefined): n is number => n !== undefined && n >= 0 && n <= 255;
  if (codes[at] === 5) {
    const n = codes[at + 1];
    return [is_byte(n) && Number.isInteger(n) ? indexed(n) : null, 2];
  }
  if (codes[at] === 2) {
    const rgb = codes.slice(at + 1, at + 4);
    return [rgb.length === 3 && rgb.every((n) => is_byte(n)) ? hex(rgb) : null, 4];
  }
  return [null, 0];
}

function indexed(n: number): string {
  if (n < 16) return String(n);
  if (n >= 232) return hex([8 + 10 * (n - 232), 8 + 10 * (n - 232), 8 + 10 * (n - 232)]);
  const level = (value: number): number => (value === 0 ? 0 : 55 + 40 * value);
  const cube = n - 16;
  return hex([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

function hex(rgb: number[]): string {
  return '#' + rgb.map((n) => Math.floor(n).toString(16).padStart(2, '0')).join('');
}

function same(a: Style, b: Style): boolean {
  return (
    a.fg === b.fg && a.bg === b.bg && a.bold === b.bold && a.dim === b.dim &&
    a.italic === b.italic && a.underline === b.underline && a.inverse === b.inverse
  );
}

// Control characters and those that turn the direction of text, as characters that can be seen.
function visible(text: string): string {
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? '\u2421' : '\ufffd';
  });
}
