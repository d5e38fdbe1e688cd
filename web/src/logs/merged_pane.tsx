// All tasks in one list, as their lines come.
import { useEffect, useState } from 'preact/hooks';
import { job_path, with_query } from '../api/client';
import { EventStream, type StreamState } from '../api/stream';
import type { JobDetail, LogPiece } from '../api/types';
import { show_dialog } from '../ui/dialog';
import { parse_cursor } from './cursor';
import { LogList, type Target } from './log_list';
import { LogRow, WholeLine } from './log_row';
import { colour_of, kMostRows, MergedLog } from './merged_log';
import type { Query } from './search';
import type { PaneCommand } from './log_pane';
import { useFrame } from './use_frame';

const kFirstLines = 500;

interface MergedPaneProps {
  job: JobDetail;
  query: Query | null;
  times: boolean;
  following: boolean;
  on_following: (following: boolean) => void;
  command: PaneCommand | null;
}

export function MergedPane({ job, query, times, following, on_following, command }: MergedPaneProps) {
  const draw = useFrame();
  const [log, set_log] = useState<MergedLog | null>(null);
  const [state, set_state] = useState<StreamState>('connecting');
  const [target, set_target] = useState<Target | null>(null);

  useEffect(() => {
    const merged = new MergedLog();
    set_log(merged);
    const tasks = Math.max(1, job.tasks.length);
    const stream = new EventStream({
      path: with_query(job_path(job.id, 'logs', 'stream'), { tail: Math.max(20, Math.floor((kFirstLines * 8) / tasks)) }),
      on_state: set_state,
      on_event: (event) => {
        if (event.event !== 'log') return;
        const piece = JSON.parse(event.data) as LogPiece;
        const end = parse_cursor(event.id)?.offsets.get(piece.task);
        if (end === undefined) return;
        merged.append(piece.task, piece.attempt, piece.offset, end, piece.text);
        draw();
      },
    });
    return () => stream.close();
  }, [job.id, job.attempt]);

  // Here only what is in memory is searched: words, not expressions.
  const words = query && !query.regex ? query.text : '';
  const [found, set_found] = useState(-1);
  useEffect(() => set_found(-1), [words]);
  useEffect(() => {
    if (!command || !log) return;
    const go_to = (row: number): void => {
      on_following(false);
      set_target({ row, serial: command.serial });
    };
    if (command.what === 'time' || words === '') return;
    const row = find_row(log, words, query!.case, found, command.what === 'next' ? 1 : -1);
    if (row < 0) return;
    set_found(row);
    go_to(row);
  }, [command?.serial]);

  return (
    <section class="log-pane" aria-label="Log of all tasks">
      <header class="log-header">
        <strong>All tasks</strong>
        <span class="log-size quiet-text number">
          {log ? `${log.rows.toLocaleString('en')} lines` : ''}
          {log && log.dropped > 0 ? ` (the newest ${kMostRows.toLocaleString('en')})` : ''}
        </span>
        {query?.regex ? <span class="quiet-text">Expressions are searched for in the log of one task.</span> : null}
      </header>
      {log && log.rows === 0 && state !== 'connecting' ? <p class="log-note quiet-text">Nothing was written yet.</p> : null}
      <LogList
        label="Lines of all tasks"
        rows={log?.rows ?? 0}
        shifted={log?.dropped ?? 0}
        following={following}
        on_following={on_following}
        target={target}
        row={(number) => {
          const row = log!.row(number);
          return (
            <LogRow
              key={number + log!.dropped}
              line={row?.line ?? null}
              label={row ? (row.attempt === job.attempt ? row.task : `${row.task} (${row.attempt})`) : ''}
              tone={row ? colour_of(row.task) : 8}
              needle={words}
              matches_case={query?.case ?? false}
              times={times}
              current={number === found}
              on_open={(line) => void show_dialog(`A line of ${row!.task}`, () => <WholeLine line={line} />, { wide: true })}
            />
          );
        }}
      />
    </section>
  );
}

// The next row with these words behind `from`, round the list; -1: there is none.
function find_row(log: MergedLog, words: string, matches_case: boolean, from: number, step: 1 | -1): number {
  const fold = (text: string): string => (matches_case ? text : text.toLowerCase());
  const wanted = fold(words);
  const rows = log.rows;
  for (let i = 1; i <= rows; ++i) {
    const row = (((from < 0 && step < 0 ? 0 : from) + step * i) % rows + rows) % rows;
    if (fold(log.row(row)!.line.text).includes(wanted)) return row;
  }
  return -1;
}
