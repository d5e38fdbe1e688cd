// Bytes of a log as lines. A line is kept up to `kLongestLine` characters: what a person can read; the
// file itself has the rest. Of a line that a program drew over and over with carriage returns
// (a progress bar) the last drawing counts, as in a terminal.

export const kLongestLine = 16 * 1024;

export interface Line {
  text: string;
  cut: number; // characters that are not kept
}

export class LineSplitter {
  private text = '';
  private cut = 0;
  private returned = false; // the last character was a carriage return
  private decoder = new TextDecoder('utf-8');

  // Adds bytes; gives each line that they complete to `take`.
  add_bytes(bytes: Uint8Array, take: (line: Line) => void): void {
    this.add_text(this.decoder.decode(bytes, { stream: true }), take);
  }

  add_text(text: string, take: (line: Line) => void): void {
    let at = 0;
    for (;;) {
      const end = text.indexOf('\n', at);
      if (end < 0) break;
      this.append(text, at, end);
      take(this.line());
      this.text = '';
      this.cut = 0;
      this.returned = false;
      at = end + 1;
    }
    this.append(text, at, text.length);
  }

  // The line that has no end yet; null where nothing stands behind the last line's end.
  partial(): Line | null {
    return this.text === '' && this.cut === 0 ? null : this.line();
  }

  private append(text: string, from: number, to: number): void {
    if (from === to) return;
    // A progress bar: what was drawn before the last carriage return is gone, unless that ends the line.
    let start = from;
    const last = to - 2 < from ? -1 : text.lastIndexOf('\r', to - 2);
    if (last >= from) start = last + 1;
    if (start > from || this.returned) {
      this.text = '';
      this.cut = 0;
    }
    this.returned = text[to - 1] === '\r';
    const room = Math.max(0, kLongestLine - this.text.length);
    this.text += text.slice(start, Math.min(to, start + room));
    this.cut += Math.max(0, to - start - room);
  }

  private line(): Line {
    return { text: this.text.replace(/\r+$/, ''), cut: this.cut };
  }
}

// Bytes of `text` in UTF-8, without making them.
export function utf8_length(text: string, from = 0, to = text.length): number {
  let bytes = 0;
  for (let i = from; i < to; ++i) {
    const code = text.charCodeAt(i);
    if (code < 0x80) bytes += 1;
    else if (code < 0x800) bytes += 2;
    else if (code >= 0xd800 && code <= 0xdbff && i + 1 < to) {
      bytes += 4;
      ++i;
    } else bytes += 3;
  }
  return bytes;
}

const kTime =
  /^[\s[(]*(?:[IWEF])?((?:\d{4}-\d\d-\d\d|\d{4}\/\d\d\/\d\d|\d{4}(?= ))[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)[\])]*[\s:,-]*/;

// The time that a line begins with, as the program wrote it, and where the text behind it begins.
export function leading_time(text: string): { time: string; rest: number } | null {
  const found = kTime.exec(text.length > 80 ? text.slice(0, 80) : text);
  return found ? { time: found[1]!, rest: found[0].length } : null;
}
