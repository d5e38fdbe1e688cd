// The log of one task: its lines, what a search finds in it, and how far it is followed.
import { useEffect, useRef, useState } from 'preact/hooks';
import { sentence_of } from '../api/client';
import type { JobDetail } from '../api/types';
import { format_bytes } from '../format';
import { Button } from '../ui/button';
import { show_dialog } from '../ui/dialog';
import { tell, tell_error } from '../ui/toast';
import type { LogFeed } from './log_feed';
import { LogFile } from './log_file';
import { LogList, type Target } from './log_list';
import { LogRow, WholeLine, type RowOptions } from './log_row';
import { ServedLog } from './log_service';
import { kMostMatches, LogSearch, type Query } from './search';
import { useFrame } from './use_frame';

const kSearchAgainMs = 1000;

export interface PaneCommand {
  what: 'next' | 'previous' | 'time';
  time?: Date;
  serial: number;
}

interface LogPaneProps {
  job: JobDetail;
  tasks: readonly string[];
  task: string;
  attempt: number;
  feed: LogFeed | null;
  query: Query | null;
  times: boolean;
  following: boolean;
  on_following: (following: boolean) => void;
  command: PaneCommand | null;
  on_task: (task: string) => void;
  on_close: (() => void) | null;
}

export function LogPane(props: LogPaneProps) {
  const { job, task, attempt, feed, query, times, following, on_following, command } = props;
  const draw = useFrame();
  const [served, set_served] = useState<ServedLog | null>(null);
  const [file, set_file] = useState<LogFile | null>(null);
  const [failed, set_failed] = useState<unknown>(null);
  const [again, set_again] = useState(0);

  useEffect(() => {
    const source = new ServedLog(job.id, task, attempt);
    const log = new LogFile(source, draw);
    set_served(source);
    set_file(null);
    set_failed(null);
    let closed = false;
    log.open().then(
      () => {
        if (closed) return;
        set_file(log);
        feed?.join(task, log);
      },
      (error) => closed || set_failed(error),
    );
    return () => {
      closed = true;
      feed?.leave(task, log);
      log.close();
    };
  }, [job.id, task, attempt, feed, again]);

  const [target, go_to] = useTarget();
  const { search, current, step } = useSearch(served, file, query, draw, (line) => {
    on_following(false);
    go_to(line);
  });

  const view = useRef({ first: 0, last: 0 });
  useEffect(() => {
    if (!command || !file) return;
    if (command.what === 'next' || command.what === 'previous') step(command.what, view.current);
    else if (command.time && served)
      served
        .offset_at(command.time)
        .then((offset) => file.line_at(offset))
        .then((line) => {
          on_following(false);
          go_to(line);
        })
        .catch(tell_error);
  }, [command?.serial]);

  const open_line: RowOptions['on_open'] = (line, label) => {
    void show_dialog(`Line ${label} of ${task}`, () => <WholeLine line={line} />, { wide: true });
  };
  const current_line = current === null ? -1 : (search?.matches[current]?.line ?? -1);
  return (
    <section class="log-pane" aria-label={`Log of ${task}`}>
      <PaneHeader {...props} served={served} file={file} search={search} current={current} step={(what) => step(what, view.current)} />
      {failed !== null || file?.failed ? (
        <p class="log-note" role="alert">
          {sentence_of(failed ?? file?.failed)}{' '}
          <Button kind="quiet" onClick={() => set_again(again + 1)}>
            Try again
          </Button>
        </p>
      ) : null}
      {file && file.lines === 0 ? <p class="log-note quiet-text">Nothing was written yet.</p> : null}
      <LogList
        label={`Lines of ${task}`}
        rows={file?.lines ?? 0}
        want={(first, last) => file?.want(first - 200, last + 200)}
        on_view={(first, last) => (view.current = { first, last })}
        following={following}
        on_following={on_following}
        target={target}
        row={(number) => (
          <LogRow
            key={number}
            line={file!.line(number)}
            label={String(number + 1)}
            needle={search?.needle(number) ?? ''}
            matches_case={(query?.case ?? false) || (query?.regex ?? false)}
            times={times}
            current={number === current_line}
            on_open={open_line}
          />
        )}
      />
    </section>
  );
}

function useTarget(): [Target | null, (row: number) => void] {
  const [target, set_target] = useState<Target | null>(null);
  return [target, (row) => set_target((before) => ({ row, serial: (before?.serial ?? 0) + 1 }))];
}

// The search for `query` in this log; goes on while the log grows, and goes to the first match found.
function useSearch(
  served: ServedLog | null,
  file: LogFile | null,
  query: Query | null,
  draw: () => void,
  go_to: (line: number) => void,
) {
  const [search, set_search] = useState<LogSearch | null>(null);
  const [current, set_current] = useState<number | null>(null);
  const jumped = useRef<LogSearch | null>(null);
  const key = query ? JSON.stringify(query) : '';
  useEffect(() => {
    set_current(null);
    set_search(null);
    if (!served || !file || !query || query.text === '') return;
    const made = new LogSearch(query, (asked, from, signal) => served.search(asked, from, signal), draw);
    set_search(made);
    void made.run();
    return () => made.close();
  }, [served, file, key]);

  const size = file?.size ?? 0;
  useEffect(() => {
    if (!search || search.running || size <= search.size) return;
    const timer = setTimeout(() => void search.run(file?.landmark), kSearchAgainMs);
    return () => clearTimeout(timer);
  }, [search, search?.running, size]);

  useEffect(() => {
    if (!search || search.matches.length === 0 || jumped.current === search) return;
    jumped.current = search;
    set_current(0);
    go_to(search.matches[0]!.line);
  });

  const step = (what: 'next' | 'previous', view: { first: number; last: number }): void => {
    if (!search) return;
    const line = current === null ? view.first : search.matches[current]!.line;
    const next = what === 'next' ? search.next(current === null ? line : line + 1) : search.previous(line);
    if (next < 0) return;
    set_current(next);
    go_to(search.matches[next]!.line);
  };
  return { search, current, step };
}

interface PaneHeaderProps extends LogPaneProps {
  served: ServedLog | null;
  file: LogFile | null;
  search: LogSearch | null;
  current: number | null;
  step: (what: 'next' | 'previous') => void;
}

function PaneHeader({ tasks, task, on_task, on_close, served, file, search, current, step }: PaneHeaderProps) {
  const save = async (): Promise<void> => {
    try {
      const files = (await served?.files()) ?? [];
      if (files.length === 0) return tell('This log is not among the files of the job.', 'error');
      if (files.length > 1) return void show_dialog(`Log of ${task}`, () => <LogFiles files={files} />);
      const link = document.createElement('a');
      link.href = files[0]!.address;
      link.download = files[0]!.name;
      link.click();
    } catch (error) {
      tell_error(error);
    }
  };
  return (
    <header class="log-header">
      <select class="select" aria-label="Task" value={task} onChange={(event) => on_task(event.currentTarget.value)}>
        {(tasks.includes(task) ? tasks : [task, ...tasks]).map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <span class="log-size quiet-text number">
        {file ? `${file.lines.toLocaleString('en')} lines, ${format_bytes(file.size)}` : 'Loading …'}
      </span>
      {search ? <Found search={search} current={current} step={step} /> : null}
      <span class="log-space" />
      <Button kind="quiet" onClick={() => void save()} aria-label={`Download the log of ${task}`}>
        Download
      </Button>
      {on_close ? (
        <Button kind="quiet" onClick={on_close} aria-label={`Close the log of ${task}`}>
          ×
        </Button>
      ) : null}
    </header>
  );
}

function LogFiles({ files }: { files: readonly { address: string; name: string; bytes: number }[] }) {
  return (
    <ul class="picker">
      {files.map(({ address, name, bytes }) => (
        <li key={name}>
          <a class="button" href={address} download={name}>
            {name} ({format_bytes(bytes)})
          </a>
        </li>
      ))}
    </ul>
  );
}

function Found({ search, current, step }: { search: LogSearch; current: number | null; step: (what: 'next' | 'previous') => void }) {
  const count = search.matches.length;
  const all = `${count.toLocaleString('en')}${search.is_full ? '+' : ''}`;
  const text =
    search.failed !== null
      ? sentence_of(search.failed)
      : count === 0
        ? search.running
          ? 'Searching …'
          : 'Not found'
        : `${current === null ? '' : `${current + 1} of `}${all}${search.running ? ' …' : ''}`;
  return (
    <span class="log-found" role="status" title={search.is_full ? `The first ${kMostMatches} matches` : undefined}>
      <span class={count === 0 ? 'quiet-text' : 'number'}>{text}</span>
      <Button kind="quiet" aria-label="Previous match" disabled={count === 0} onClick={() => step('previous')}>
        ↑
      </Button>
      <Button kind="quiet" aria-label="Next match" disabled={count === 0} onClick={() => step('next')}>
        ↓
      </Button>
    </span>
  );
}
