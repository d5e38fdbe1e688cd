// One task's log in one attempt, as lines, of any size: the service's line index says where every
// 1,000th line begins, blocks of so many lines are read when they are looked at, and at most
// `kMostCached` characters of them stay in memory. New text arrives through append(), with the offset of
// its first byte and of the byte behind it, so that a piece that comes twice is dropped and a gap is read.
// Confined to the page's thread; `on_change` is called after every change, perhaps often.
import { plain, style_after, type Style } from './ansi';
import { LineSplitter, utf8_length, type Line } from './lines';

export interface LogIndex {
  size: number; // how far the log was read, in bytes
  line: number; // which line is there
  every: number;
  first: number; // line number of offsets[0]
  offsets: number[];
  ended: boolean;
  more: boolean; // the log has more lines than this answer is about
}

export interface LogSource {
  /** Of the lines that begin behind byte `from`, where line `line` is; from 0 on: of all. */
  index(from: number, line: number, signal: AbortSignal): Promise<LogIndex>;
  read(offset: number, limit: number, signal: AbortSignal): Promise<Uint8Array>;
}

const kPiece = 1 << 20;
const kMostBlockBytes = 32 << 20; // of one block; what lies behind is not shown
const kMostCached = 4 << 20; // characters of all blocks

export interface StyledLine extends Line {
  from: Style; // the colours in which it begins, as those before it in its block left them
}

const missing: Line = { text: '', cut: -1 };

class Block {
  lines: StyledLine[] = [];
  style = plain;
  characters = 0;
  used = 0;

  add(line: Line): void {
    this.lines.push({ ...line, from: this.style });
    if (line.text.includes('\x1b')) this.style = style_after(line.text, this.style);
    this.characters += line.text.length + 32;
  }
}

export class LogFile {
  size = 0;
  ended = false;
  failed: unknown = null;
  ready = false;

  private every = 1000;
  private offsets: number[] = [0]; // of the first line of each block
  private blocks = new Map<number, Block>();
  private loading = new Set<number>();
  private splitter = new LineSplitter();
  private whole = 0; // lines with an end
  private clock = 0;
  private queue: Promise<void> = Promise.resolve();
  private readonly abort = new AbortController();

  constructor(
    private readonly source: LogSource,
    private readonly on_change: () => void,
  ) {}

  close(): void {
    this.abort.abort();
  }

  get lines(): number {
    return this.whole + (this.splitter.partial() ? 1 : 0);
  }

  // Reads the index and the last lines; append() may be called from then on.
  async open(): Promise<void> {
    let index = await this.source.index(0, 0, this.abort.signal);
    this.every = index.every;
    this.take_offsets(index);
    while (index.more) {
      const before = index.size;
      index = await this.source.index(index.size, index.line, this.abort.signal);
      this.take_offsets(index);
      if (index.size <= before) break;
    }
    this.ended = index.ended;
    const last = this.offsets.length - 1;
    this.blocks.set(last, new Block());
    this.whole = last * this.every;
    this.size = this.offsets[last]!;
    if (index.size - this.size > kMostBlockBytes) {
      // Lines too long to read again from the first of them: what comes from now on is shown.
      while (this.whole < index.line) this.take_line(missing);
      this.size = index.size;
    }
    await this.catch_up(index.size);
    this.ready = true;
    this.on_change();
  }

  // The line, or null while it is being read; cut < 0: it will not be read.
  line(number: number): StyledLine | null {
    const block = this.blocks.get(Math.floor(number / this.every));
    if (number === this.whole) {
      const partial = this.splitter.partial();
      return partial && { ...partial, from: block?.style ?? plain };
    }
    if (block) block.used = ++this.clock;
    return block?.lines[number % this.every] ?? null;
  }

  // Sees to it that these lines will be there.
  want(first: number, last: number): void {
    const last_block = Math.floor(Math.min(last, this.whole - 1) / this.every);
    for (let i = Math.floor(Math.max(0, first) / this.every); i <= last_block; ++i)
      if (!this.blocks.has(i) && !this.loading.has(i)) void this.load(i);
  }

  // A piece of the stream: bytes [offset, end) of the log as text.
  append(offset: number, end: number, text: string): Promise<void> {
    return this.enqueue(async () => {
      if (end <= this.size) return;
      if (offset !== this.size) return this.catch_up(end);
      this.take_text(text, end);
      this.on_change();
    });
  }

  // The last place of which both byte and line are known.
  get landmark(): { offset: number; line: number } {
    for (let i = this.offsets.length - 1; i > 0; --i) if (this.offsets[i]! >= 0) return { offset: this.offsets[i]!, line: i * this.every };
    return { offset: 0, line: 0 };
  }

  // Reads what was written up to now, after a stream that could not say where it went on.
  refresh(): Promise<void> {
    return this.enqueue(async () => {
      await this.catch_up(Number.MAX_SAFE_INTEGER);
      this.on_change();
    });
  }

  // The line that holds the byte at `offset`.
  async line_at(offset: number): Promise<number> {
    let low = 0;
    let high = this.offsets.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.offsets[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    let line = low * this.every;
    let at = this.offsets[low]!;
    while (at < offset) {
      const bytes = await this.source.read(at, Math.min(kPiece, offset - at), this.abort.signal);
      if (bytes.length === 0) break;
      for (const byte of bytes) if (byte === 10) ++line;
      at += bytes.length;
    }
    return line;
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(async () => {
      try {
        await work();
      } catch (error) {
        if (this.abort.signal.aborted) return;
        this.failed = error;
        this.on_change();
      }
    });
    return this.queue;
  }

  private take_offsets(index: LogIndex): void {
    const at = Math.floor(index.first / this.every);
    for (let i = 0; i < index.offsets.length; ++i)
      if (at + i >= this.offsets.length) this.offsets.push(index.offsets[i]!);
  }

  private async catch_up(end: number): Promise<void> {
    while (this.size < end) {
      const bytes = await this.source.read(this.size, Math.min(kPiece, end - this.size), this.abort.signal);
      if (bytes.length === 0) return;
      this.take_bytes(bytes);
    }
  }

  private take_bytes(bytes: Uint8Array): void {
    let start = 0;
    for (;;) {
      const found = bytes.indexOf(10, start);
      if (found < 0) break;
      this.splitter.add_bytes(bytes.subarray(start, found + 1), (line) => this.take_line(line));
      start = found + 1;
      if (this.whole % this.every === 0) this.begin_block(this.size + start);
    }
    this.splitter.add_bytes(bytes.subarray(start), () => undefined);
    this.size += bytes.length;
  }

  private take_text(text: string, end: number): void {
    // Where bytes were not UTF-8 they have become longer, and places of lines in bytes are unknown.
    const is_exact = utf8_length(text) === end - this.size;
    let at = this.size;
    let start = 0;
    let guessed = false;
    for (;;) {
      const found = text.indexOf('\n', start);
      if (found < 0) break;
      this.splitter.add_text(text.slice(start, found + 1), (line) => this.take_line(line));
      at += utf8_length(text, start, found + 1);
      start = found + 1;
      if (this.whole % this.every !== 0) continue;
      this.begin_block(is_exact ? at : -1);
      guessed ||= !is_exact;
    }
    this.splitter.add_text(text.slice(start), () => undefined);
    this.size = end;
    if (guessed) void this.enqueue(() => this.find_offsets());
  }

  private take_line(line: Line): void {
    const number = Math.floor(this.whole / this.every);
    let block = this.blocks.get(number);
    if (!block) this.blocks.set(number, (block = new Block()));
    block.add(line);
    ++this.whole;
  }

  private begin_block(offset: number): void {
    if (this.offsets.length === this.whole / this.every) this.offsets.push(offset);
    this.evict();
  }

  // Asks the index for the places of blocks that were begun by text of unknown length.
  private async find_offsets(): Promise<void> {
    const unknown = this.offsets.indexOf(-1);
    if (unknown < 1) return;
    const known = unknown - 1;
    const index = await this.source.index(this.offsets[known]!, known * this.every, this.abort.signal);
    const at = Math.floor(index.first / this.every);
    index.offsets.forEach((offset, i) => {
      if (this.offsets[at + i] === -1) this.offsets[at + i] = offset;
    });
  }

  private async load(number: number): Promise<void> {
    const start = this.offsets[number]!;
    const end = this.offsets[number + 1] ?? this.size;
    if (start < 0 || end < 0) return;
    this.loading.add(number);
    try {
      const block = new Block();
      const splitter = new LineSplitter();
      const most = Math.min(end, start + kMostBlockBytes);
      for (let at = start; at < most; ) {
        const bytes = await this.source.read(at, Math.min(kPiece, most - at), this.abort.signal);
        if (bytes.length === 0) break;
        splitter.add_bytes(bytes, (line) => block.add(line));
        at += bytes.length;
      }
      const rest = splitter.partial();
      if (rest && block.lines.length < this.every) block.add(rest);
      while (block.lines.length < this.every) block.add(missing);
      block.used = ++this.clock;
      this.blocks.set(number, block);
      this.evict();
      this.failed = null;
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.failed = error;
    } finally {
      this.loading.delete(number);
    }
    this.on_change();
  }

  // Drops the blocks that were looked at longest ago; never the last two, which grow.
  private evict(): void {
    let characters = 0;
    for (const block of this.blocks.values()) characters += block.characters;
    if (characters <= kMostCached) return;
    const last = Math.floor(this.whole / this.every);
    const old = [...this.blocks.entries()]
      .filter(([number]) => number < last - 1 && this.offsets[number]! >= 0 && (this.offsets[number + 1] ?? -1) >= 0)
      .sort((a, b) => a[1].used - b[1].used);
    for (const [number, block] of old) {
      if (characters <= kMostCached) return;
      characters -= block.characters;
      this.blocks.delete(number);
    }
  }
}
