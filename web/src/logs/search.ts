// A search through one log, done by the service piece by piece. Found lines come sorted; at most
// `kMostMatches` are kept. Nothing of the query runs in the browser: a regular expression is the
// service's (which takes linear time), and what it found is marked as plain text.

export interface Match {
  offset: number;
  line: number;
  text: string;
  start?: number;
  length?: number;
}

export interface MatchPage {
  matches: Match[];
  next: number | null;
  next_line: number;
  size: number;
}

// The beginning of a line.
export interface Place {
  offset: number;
  line: number;
}

export interface Query {
  text: string;
  regex: boolean;
  case: boolean;
}

export const kMostMatches = 5000;
export const kErrors: Query = {
  text: '\\b(error|exception|fatal|panic|aborted|segmentation fault|out of memory|core dumped|killed)\\b|[a-z]Error\\b|^Traceback',
  regex: true,
  case: false,
};

export class LogSearch {
  matches: Match[] = [];
  size = 0;
  running = false;
  failed: unknown = null;
  private from: Place = { offset: 0, line: 0 };
  private readonly abort = new AbortController();

  constructor(
    readonly query: Query,
    private readonly ask: (query: Query, from: Place, signal: AbortSignal) => Promise<MatchPage>,
    private readonly on_change: () => void,
  ) {}

  get is_full(): boolean {
    return this.matches.length >= kMostMatches;
  }

  close(): void {
    this.abort.abort();
  }

  // Goes on to the end of the log as it is now. Called again when the log has grown, with a place at which
  // a line begins and up to which all lines were whole at the last call.
  async run(landmark: Place = { offset: 0, line: 0 }): Promise<void> {
    if (this.running || this.is_full) return;
    if (landmark.offset > this.from.offset && landmark.offset < this.size) this.from = landmark;
    this.running = true;
    this.on_change();
    try {
      for (;;) {
        const page = await this.ask(this.query, this.from, this.abort.signal);
        const last = this.matches[this.matches.length - 1]?.line ?? -1;
        for (const match of page.matches) if (match.line > last && !this.is_full) this.matches.push(match);
        this.size = page.size;
        // The last line may be unfinished: it is searched again when there is more.
        if (page.next === null || page.next <= this.from.offset || this.is_full) break;
        this.from = { offset: page.next, line: page.next_line };
        this.on_change();
      }
      this.failed = null;
    } catch (error) {
      if (!this.abort.signal.aborted) this.failed = error;
    } finally {
      this.running = false;
      if (!this.abort.signal.aborted) this.on_change();
    }
  }

  // Index of the first match at or behind `line`, round to the first; -1 without matches.
  next(line: number): number {
    if (this.matches.length === 0) return -1;
    const at = lower_bound(this.matches, line);
    return at === this.matches.length ? 0 : at;
  }

  previous(line: number): number {
    if (this.matches.length === 0) return -1;
    const at = lower_bound(this.matches, line);
    return at === 0 ? this.matches.length - 1 : at - 1;
  }

  // The match in this line.
  at(line: number): Match | null {
    const match = this.matches[lower_bound(this.matches, line)];
    return match && match.line === line ? match : null;
  }

  // What is marked in a line: the words themselves, or what the service found there.
  needle(line: number): string {
    if (!this.query.regex) return this.query.text;
    const match = this.at(line);
    if (!match || match.start === undefined || !match.length) return '';
    return [...match.text].slice(match.start, match.start + match.length).join('');
  }
}

function lower_bound(matches: readonly Match[], line: number): number {
  let low = 0;
  let high = matches.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (matches[middle]!.line < line) low = middle + 1;
    else high = middle;
  }
  return low;
}
