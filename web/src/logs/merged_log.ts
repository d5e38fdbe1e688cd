// The newest lines of all tasks as they come. At most `kMostRows` are kept; the tasks' own logs have the
// rest. Lines of one task keep their order, and one that comes in pieces is one row.
import { plain, style_after, type Style } from './ansi';
import { LineSplitter, type Line } from './lines';
import type { StyledLine } from './log_file';

export const kMostRows = 20_000;

export interface MergedRow {
  task: string;
  attempt: number;
  line: StyledLine;
}

export class MergedLog {
  private kept: MergedRow[] = [];
  private begin = 0; // of the rows in `kept`: those before it are dropped, and cut off now and then
  private tasks = new Map<string, { splitter: LineSplitter; style: Style; end: number }>();
  dropped = 0;

  get rows(): number {
    return this.kept.length - this.begin;
  }

  row(number: number): MergedRow | undefined {
    return this.kept[this.begin + number];
  }

  // Bytes [offset, end) of a task's log; those that are there already are not taken again.
  append(task: string, attempt: number, offset: number, end: number, text: string): void {
    const key = `${attempt}/${task}`;
    let state = this.tasks.get(key);
    if (!state) this.tasks.set(key, (state = { splitter: new LineSplitter(), style: plain, end: offset }));
    if (end <= state.end && end !== offset) return;
    state.end = end;
    const { splitter } = state;
    const take = (line: Line): void => {
      this.kept.push({ task, attempt, line: { ...line, from: state.style } });
      if (line.text.includes('\x1b')) state.style = style_after(line.text, state.style);
    };
    splitter.add_text(text, take);
    while (this.rows > kMostRows) {
      ++this.begin;
      ++this.dropped;
    }
    if (this.begin > kMostRows) {
      this.kept = this.kept.slice(this.begin);
      this.begin = 0;
    }
  }
}

// A colour for a task that stays the same: one of eight.
export function colour_of(task: string): number {
  let hash = 0;
  for (let i = 0; i < task.length; ++i) hash = (hash * 31 + task.charCodeAt(i)) >>> 0;
  const number = /(\d+)$/.exec(task);
  return ((number ? Number(number[1]) : hash) % 8) + 1;
}
