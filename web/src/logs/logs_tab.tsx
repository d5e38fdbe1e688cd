import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get_json, job_path } from '../api/client';
import type { Failure, JobDetail } from '../api/types';
import { useKeys } from '../keys';
import { set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { DialogButtons, show_dialog } from '../ui/dialog';
import { EmptyState } from '../ui/empty_state';
import { LogFeed } from './log_feed';
import { LogPane, type PaneCommand } from './log_pane';
import { MergedPane } from './merged_pane';
import { kErrors, type Query } from './search';

const kMostPanes = 4;

export function LogsTab({ job }: { job: JobDetail }) {
  const { query } = useAddress();
  const names = job.tasks.map((task) => task.name);
  const attempt = chosen_attempt(query.get('attempt'), job);
  const root_cause = useRootCause(job);
  const merged = query.get('view') === 'all';
  const first = (root_cause && names.includes(root_cause) ? root_cause : names[0]) ?? '';
  const asked = query.getAll('task').slice(0, kMostPanes);
  const panes = asked.length > 0 ? asked : [first];
  const shown = shown_query(query);

  const [following, set_following] = useState(shown === null);
  const [times, set_times] = useState(true);
  const [command, set_command] = useState<PaneCommand | null>(null);
  const send = (what: PaneCommand['what'], time?: Date): void =>
    set_command((before) => ({ what, serial: (before?.serial ?? 0) + 1, ...(time ? { time } : {}) }));

  const feed = useMemo(
    () => (attempt === job.attempt ? new LogFeed(job.id, attempt, () => undefined) : null),
    [job.id, attempt, job.attempt],
  );
  useEffect(() => () => feed?.close(), [feed]);

  const box = useRef<HTMLInputElement>(null);
  useKeys({
    n: () => send('next'),
    N: () => send('previous'),
    e: () => search_for(kErrors),
    f: () => set_following(!following),
  });

  if (job.attempt === 0 || (names.length === 0 && asked.length === 0))
    return <EmptyState title={job.state === 'queued' ? 'Nothing is written yet: the job waits for its turn.' : 'There are no tasks yet.'} />;
  const set_panes = (tasks: readonly string[]): void => set_query({ task: tasks, view: null });
  const show_all = (): void => {
    set_following(true);
    set_query({ view: 'all' });
  };
  const beside = names.find((name) => !panes.includes(name));
  return (
    <div class="logs" ref={fitted}>
      <div class="log-tools" role="toolbar" aria-label="Logs">
        <div class="log-views" role="group" aria-label="View">
          <Button aria-pressed={!merged} kind={merged ? 'quiet' : 'plain'} onClick={() => set_query({ view: null })}>
            By task
          </Button>
          <Button aria-pressed={merged} kind={merged ? 'plain' : 'quiet'} onClick={() => show_all()}>
            All tasks
          </Button>
        </div>
        {!merged && beside !== undefined && panes.length < kMostPanes ? (
          <Button kind="quiet" onClick={() => set_panes([...panes, beside])}>
            + Beside
          </Button>
        ) : null}
        {!merged && job.attempts.length > 1 ? (
          <select
            class="select"
            aria-label="Attempt"
            value={String(attempt)}
            onChange={(event) => set_query({ attempt: Number(event.currentTarget.value) === job.attempt ? null : event.currentTarget.value })}
          >
            {job.attempts.map(({ number, state }) => (
              <option key={number} value={String(number)}>
                Attempt {number} ({state})
              </option>
            ))}
          </select>
        ) : null}
        <SearchBox input={box} shown={shown} on_step={send} />
        <Button aria-pressed={is_errors(shown)} disabled={merged} title="Lines that look like errors (e)" onClick={() => search_for(is_errors(shown) ? null : kErrors)}>
          Errors
        </Button>
        <span class="log-space" />
        <Button aria-pressed={times} kind={times ? 'plain' : 'quiet'} title="Times that lines begin with" onClick={() => set_times(!times)}>
          Times
        </Button>
        {merged ? null : (
          <Button kind="quiet" onClick={() => void ask_time(job).then((time) => time && send('time', time))}>
            Go to time
          </Button>
        )}
        <Button aria-pressed={following} kind={following ? 'primary' : 'plain'} title="Stay at the newest line (f)" onClick={() => set_following(!following)}>
          Follow
        </Button>
      </div>
      {merged ? (
        <MergedPane job={job} query={shown} times={times} following={following} on_following={set_following} command={command} />
      ) : (
        <div class={`log-panes log-panes-${panes.length}`}>
          {panes.map((task, i) => (
            <LogPane
              key={`${i}/${task}`}
              job={job}
              tasks={names}
              task={task}
              attempt={attempt}
              feed={feed}
              query={shown}
              times={times}
              following={following}
              on_following={set_following}
              command={command}
              on_task={(name) => set_panes(panes.map((old, at) => (at === i ? name : old)))}
              on_close={panes.length > 1 ? () => set_panes(panes.filter((_, at) => at !== i)) : null}
            />
          ))}
        </div>
      )}
    </div>
  );
}

// As tall as the window leaves room for, whatever stands above.
function fitted(element: HTMLDivElement | null): void {
  if (!element) return;
  const top = element.getBoundingClientRect().top + scrollY;
  element.style.height = `${Math.max(420, innerHeight - top - 12)}px`;
}

interface SearchBoxProps {
  input: { current: HTMLInputElement | null };
  shown: Query | null;
  on_step: (what: 'next' | 'previous') => void;
}

function SearchBox({ input, shown, on_step }: SearchBoxProps) {
  const own = is_errors(shown) ? null : shown;
  const [text, set_text] = useState(own?.text ?? '');
  useEffect(() => set_text(own?.text ?? ''), [own?.text]);
  const [regex, matches_case] = [own?.regex ?? false, own?.case ?? false];
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text === (own?.text ?? '') && text !== '') on_step('next');
    else search_for(text === '' ? null : { text, regex, case: matches_case });
  };
  const toggle = (name: 'regex' | 'case'): void => {
    const on = name === 'regex' ? !regex : !matches_case;
    set_query({ [name]: on ? '1' : null, errors: null, ...(text === '' ? {} : { q: text }) });
  };
  return (
    <form class="log-search" role="search" onSubmit={submit}>
      <input
        ref={input}
        class="field"
        type="search"
        data-search
        aria-label="Search in the log"
        placeholder="Search (/)"
        maxLength={500}
        value={text}
        onInput={(event) => {
          set_text(event.currentTarget.value);
          if (event.currentTarget.value === '') search_for(null);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') input.current?.blur();
          if (event.key === 'Enter' && event.shiftKey) {
            event.preventDefault();
            on_step('previous');
          }
        }}
      />
      <Button kind={matches_case ? 'plain' : 'quiet'} aria-pressed={matches_case} aria-label="Match case" title="Match case" onClick={() => toggle('case')}>
        Aa
      </Button>
      <Button kind={regex ? 'plain' : 'quiet'} aria-pressed={regex} aria-label="Regular expression" title="Regular expression (RE2)" onClick={() => toggle('regex')}>
        .*
      </Button>
    </form>
  );
}

// The search is in the address: q, regex, case; errors=1 stands for the one that looks for errors.
function shown_query(query: URLSearchParams): Query | null {
  if (query.get('errors') === '1') return kErrors;
  const text = (query.get('q') ?? '').slice(0, 500);
  return text === '' ? null : { text, regex: query.get('regex') === '1', case: query.get('case') === '1' };
}

function search_for(query: Query | null): void {
  if (query === kErrors) set_query({ errors: '1', q: null });
  else
    set_query({
      errors: null,
      q: query?.text ?? null,
      regex: query?.regex ? '1' : null,
      case: query?.case ? '1' : null,
    });
}

function is_errors(query: Query | null): boolean {
  return query === kErrors;
}

function chosen_attempt(text: string | null, job: JobDetail): number {
  const number = Number(text);
  return text !== null && job.attempts.some((attempt) => attempt.number === number) ? number : job.attempt;
}

// The task that a failed job is to blame on.
function useRootCause(job: JobDetail): string | null {
  const [task, set_task] = useState<string | null>(null);
  useEffect(() => {
    if (job.state !== 'failed') return set_task(null);
    const abort = new AbortController();
    get_json<Failure>(job_path(job.id, 'failure'), {}, abort.signal).then(
      (failure) => set_task(failure.log?.task || failure.task || null),
      () => undefined, // the log of the first task is shown
    );
    return () => abort.abort();
  }, [job.id, job.state]);
  return task;
}

function ask_time(job: JobDetail): Promise<Date | null> {
  const local = (time: string | null): string => {
    const date = time ? new Date(time) : new Date();
    return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  };
  return show_dialog<Date>('Go to what was written at', (close) => (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const value = new FormData(event.currentTarget).get('time');
        const time = new Date(String(value));
        close(Number.isNaN(time.getTime()) ? null : time);
      }}
    >
      <label class="labelled">
        <span>Time, in this browser's zone</span>
        <input class="field" type="datetime-local" name="time" step={1} value={local(job.started)} required />
      </label>
      <DialogButtons>
        <Button onClick={() => close(null)}>Cancel</Button>
        <Button kind="primary" type="submit">
          Go
        </Button>
      </DialogButtons>
    </form>
  ));
}
