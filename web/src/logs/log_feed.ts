// New text of the logs that are shown, by one stream for all of them: browsers allow few connections to
// one host. Each file says how far it has come when it joins; the stream begins there.
import { job_path, with_query } from '../api/client';
import { EventStream } from '../api/stream';
import type { LogPiece } from '../api/types';
import { cursor_text, parse_cursor } from './cursor';
import type { LogFile } from './log_file';

export class LogFeed {
  private files = new Map<string, LogFile>();
  private stream: EventStream | null = null;
  private restart_timer = 0;

  constructor(
    private readonly job: string,
    private readonly attempt: number,
    private readonly on_end: () => void,
  ) {}

  join(task: string, file: LogFile): void {
    this.files.set(task, file);
    this.restart();
  }

  leave(task: string, file: LogFile): void {
    if (this.files.get(task) !== file) return;
    this.files.delete(task);
    this.restart();
  }

  close(): void {
    clearTimeout(this.restart_timer);
    this.stream?.close();
    this.stream = null;
    this.files.clear();
  }

  // Several files come and go at once when the view changes: one new stream for all of them.
  private restart(): void {
    this.stream?.close();
    this.stream = null;
    clearTimeout(this.restart_timer);
    if (this.files.size > 0) this.restart_timer = window.setTimeout(() => this.open(), 0);
  }

  private open(): void {
    const offsets = new Map([...this.files].map(([task, file]) => [task, file.size]));
    this.stream = new EventStream({
      path: with_query(job_path(this.job, 'logs', 'stream'), { task: [...this.files.keys()].join(',') }),
      after: cursor_text({ attempt: this.attempt, offsets }),
      on_event: (event) => {
        if (event.event === 'end') this.on_end();
        if (event.event !== 'log') return;
        const piece = JSON.parse(event.data) as LogPiece;
        const end = parse_cursor(event.id)?.offsets.get(piece.task);
        if (piece.attempt !== this.attempt || end === undefined) return;
        void this.files.get(piece.task)?.append(piece.offset, end, piece.text);
      },
    });
  }
}
