import { describe, expect, test } from 'vitest';
import { LogFile, type LogIndex, type LogSource } from '../src/logs/log_file';
import { kErrors, LogSearch, type MatchPage, type Place } from '../src/logs/search';

// A service with one log in memory.
class Served implements LogSource {
  bytes: Uint8Array = new Uint8Array();
  reads = 0;
  indexes = 0;
  constructor(
    text: string | Uint8Array = '',
    private readonly every = 10,
    private readonly scan = Infinity,
  ) {
    this.add(text);
  }
  add(text: string | Uint8Array): void {
    const more = typeof text === 'string' ? new TextEncoder().encode(text) : text;
    const all = new Uint8Array(this.bytes.length + more.length);
    all.set(this.bytes);
    all.set(more, this.bytes.length);
    this.bytes = all;
  }
  async index(from: number, line: number): Promise<LogIndex> {
    ++this.indexes;
    const offsets = from === 0 ? [0] : [];
    const first = from === 0 ? 0 : (Math.floor(line / this.every) + 1) * this.every;
    const end = Math.min(this.bytes.length, from + this.scan);
    for (let i = from; i < end; ++i) if (this.bytes[i] === 10 && ++line % this.every === 0) offsets.push(i + 1);
    return { size: end, line, every: this.every, first, offsets, ended: false, more: end < this.bytes.length };
  }
  async read(offset: number, limit: number): Promise<Uint8Array> {
    ++this.reads;
    return this.bytes.slice(offset, offset + limit);
  }
}

const numbered = (from: number, to: number): string => Array.from({ length: to - from }, (_, i) => `line ${from + i}\n`).join('');

async function opened(served: Served): Promise<LogFile> {
  const file = new LogFile(served, () => undefined);
  await file.open();
  return file;
}

async function text_at(file: LogFile, line: number): Promise<string> {
  file.want(line, line);
  for (let i = 0; i < 100 && file.line(line) === null; ++i) await Promise.resolve();
  return file.line(line)!.text;
}

function everything(file: LogFile): Promise<string[]> {
  return Promise.all(Array.from({ length: file.lines }, (_, i) => text_at(file, i)));
}

describe('a log file', () => {
  test('is read at its end first, and elsewhere where it is looked at', async () => {
    const served = new Served(numbered(0, 995));
    const file = await opened(served);
    expect(file.lines).toBe(995);
    expect(served.reads).toBe(1);
    expect(file.line(994)!.text).toBe('line 994');
    expect(file.line(3)).toBeNull();
    expect(await text_at(file, 3)).toBe('line 3');
    expect(await text_at(file, 500)).toBe('line 500');
  });

  test('an index that comes in parts is the same', async () => {
    const file = await opened(new Served(numbered(0, 500), 10, 700));
    expect(file.lines).toBe(500);
    expect(await text_at(file, 123)).toBe('line 123');
  });

  test('grows by pieces of the stream, over the ends of blocks', async () => {
    const served = new Served(numbered(0, 15) + 'half');
    const file = await opened(served);
    expect([file.lines, file.line(15)!.text]).toEqual([16, 'half']);
    const more = ' of a line: ü\n' + numbered(16, 95);
    const before = served.bytes.length;
    served.add(more);
    await file.append(before, served.bytes.length, more);
    expect(file.lines).toBe(95);
    expect(file.size).toBe(served.bytes.length);
    expect(file.line(15)!.text).toBe('half of a line: ü');
    expect(await text_at(file, 94)).toBe('line 94');
    // The places of blocks that came by the stream are those of the file.
    const again = await opened(served);
    expect(await everything(again)).toEqual(await everything(file));
  });

  test('a piece that comes twice is dropped, and one that was missed is read', async () => {
    const served = new Served(numbered(0, 5));
    const file = await opened(served);
    const at = served.bytes.length;
    served.add(numbered(5, 8));
    const then = served.bytes.length;
    await file.append(at, then, numbered(5, 8));
    await file.append(at, then, numbered(5, 8));
    expect(file.lines).toBe(8);
    served.add(numbered(8, 20));
    const missed = served.bytes.length;
    served.add(numbered(20, 30));
    await file.append(missed, served.bytes.length, numbered(20, 30));
    expect(await everything(file)).toEqual(Array.from({ length: 30 }, (_, i) => `line ${i}`));
    // One that overlaps what is there.
    const end = served.bytes.length;
    served.add('last\n');
    await file.append(end - 8, served.bytes.length, 'line 29\nlast\n');
    expect(file.lines).toBe(31);
    expect(file.line(30)!.text).toBe('last');
  });

  test('bytes that are no UTF-8 do not shift what is read later', async () => {
    const served = new Served(numbered(0, 3));
    const file = await opened(served);
    const at = served.bytes.length;
    const wrong = new Uint8Array([...new TextEncoder().encode(numbered(3, 8)), 0xff, 0xff, 10, ...new TextEncoder().encode(numbered(9, 47))]);
    served.add(wrong);
    await file.append(at, served.bytes.length, new TextDecoder().decode(wrong));
    await file.refresh();
    expect(file.size).toBe(served.bytes.length);
    expect(served.indexes).toBe(2);
    const again = await opened(served);
    expect(await everything(again)).toEqual(await everything(file));
    expect(file.lines).toBe(47);
  });

  test('the line that holds a byte', async () => {
    const served = new Served(numbered(0, 100));
    const file = await opened(served);
    for (const line of [0, 1, 9, 10, 57, 99]) {
      const offset = new TextEncoder().encode(numbered(0, line)).length;
      expect(await file.line_at(offset)).toBe(line);
      expect(await file.line_at(offset + 3)).toBe(line);
    }
  });

  test('an empty one, and one whose first read fails', async () => {
    const file = await opened(new Served());
    expect(file.lines).toBe(0);
    await file.append(0, 2, 'a\n');
    expect(file.lines).toBe(1);
  });
});

describe('a search', () => {
  const lines = ['ok', 'Error: one', 'ok', 'an error', 'ok'];
  const offsets = lines.map((_, i) => lines.slice(0, i).join('\n').length + (i > 0 ? 1 : 0));
  // The service scans two lines a call.
  const ask = async (query: { text: string }, from: Place): Promise<MatchPage> => {
    const first = from.line;
    expect(from.offset).toBe(offsets[first]);
    const part = lines.slice(first, first + 2);
    const matches = part.flatMap((text, i) =>
      text.toLowerCase().includes(query.text) ? [{ offset: offsets[first + i]!, line: first + i, text, start: 0, length: 3 }] : [],
    );
    return { matches, next: offsets[first + 2] ?? null, next_line: first + 2, size: 100 };
  };

  test('goes through the whole log and round it', async () => {
    let changes = 0;
    const search = new LogSearch({ text: 'error', regex: false, case: false }, ask, () => ++changes);
    await search.run();
    expect(search.matches.map((match) => match.line)).toEqual([1, 3]);
    expect([search.next(0), search.next(2), search.next(4), search.previous(1), search.previous(3)]).toEqual([0, 1, 0, 1, 0]);
    expect(search.at(3)!.text).toBe('an error');
    expect(search.at(2)).toBeNull();
    expect(changes).toBeGreaterThan(1);
    await search.run({ offset: offsets[3]!, line: 3 });
    expect(search.matches.length).toBe(2);
  });

  test('marks what the service found', async () => {
    const search = new LogSearch({ text: 'error', regex: true, case: false }, ask, () => undefined);
    await search.run();
    expect(search.needle(3)).toBe('an ');
    expect(search.needle(0)).toBe('');
  });

  test('a service that does not go on is not asked for ever', async () => {
    let calls = 0;
    const search = new LogSearch(kErrors, async () => (++calls, { matches: [], next: 0, next_line: 0, size: 10 }), () => undefined);
    await search.run();
    expect(calls).toBe(1);
  });
});
