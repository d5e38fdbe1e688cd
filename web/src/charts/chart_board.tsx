import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { sentence_of } from '../api/client';
import { useStore } from '../api/store';
import { has_ended } from '../api/types';
import { plural } from '../format';
import { set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import type { Axis } from './aligned';
import { Board, groups_of, type Run } from './board';
import { Chart, type ChartSettings } from './chart';

const kAxes: readonly { id: Axis; label: string }[] = [
  { id: 'step', label: 'Step' },
  { id: 'duration', label: 'Duration' },
  { id: 'clock', label: 'Time' },
];

export function settings_of(query: URLSearchParams): ChartSettings {
  const smoothing = Number(query.get('smooth') ?? 0);
  return {
    axis: kAxes.find(({ id }) => id === query.get('x'))?.id ?? 'step',
    smoothing: smoothing > 0 && smoothing < 1 ? smoothing : 0,
    log: query.get('log') === '1',
  };
}

/** All metrics of some runs. `tools`: more controls beside those of the charts. */
export function ChartBoard({ runs, tools }: { runs: readonly Run[]; tools?: ComponentChildren }) {
  const { query } = useAddress();
  const settings = settings_of(query);
  const filter = (query.get('metric') ?? '').toLowerCase();
  const key = runs.map((run) => `${run.id} ${has_ended(run.state)} ${run.started}`).join();
  const board = useMemo(() => new Board(runs), [key]);
  useEffect(() => () => board.close(), [board]);
  const names = useStore(board.names);
  const loaded = useStore(board.loaded);
  const failed = useStore(board.failed);
  const range = useStore(board.range);
  const shown = names.filter((name) => name.toLowerCase().includes(filter));

  // Another axis has other numbers.
  useEffect(() => board.range.set(null), [settings.axis, board]);

  return (
    <div class="charts">
      <div class="chart-tools" role="toolbar" aria-label="Charts">
        <input
          class="field"
          type="search"
          aria-label="Metrics with this in their name"
          placeholder="Metrics"
          value={query.get('metric') ?? ''}
          onInput={(event) => set_query({ metric: event.currentTarget.value })}
        />
        <div class="chart-axes" role="group" aria-label="Horizontal axis">
          {kAxes.map(({ id, label }) => (
            <Button key={id} kind={settings.axis === id ? 'plain' : 'quiet'} aria-pressed={settings.axis === id} onClick={() => set_query({ x: id === 'step' ? null : id })}>
              {label}
            </Button>
          ))}
        </div>
        <label class="chart-smooth">
          <span>Smoothing</span>
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={String(settings.smoothing)}
            onInput={(event) => set_query({ smooth: Number(event.currentTarget.value) > 0 ? event.currentTarget.value : null })}
          />
          <span class="number">{settings.smoothing.toFixed(2)}</span>
        </label>
        <Button kind={settings.log ? 'plain' : 'quiet'} aria-pressed={settings.log} onClick={() => set_query({ log: settings.log ? null : '1' })}>
          Log scale
        </Button>
        {range ? <Button onClick={() => board.range.set(null)}>Whole range</Button> : null}
        {tools}
      </div>
      {runs.length > 1 ? (
        <ul class="chart-runs" aria-label="Runs">
          {runs.map((run, i) => (
            <li key={run.id} class={`chart-run chart-run${(i % 8) + 1}`}>
              {run.name}
            </li>
          ))}
        </ul>
      ) : null}
      {failed !== null ? (
        <p class="chart-note" role="alert">
          {sentence_of(failed)}
        </p>
      ) : null}
      {names.length === 0 ? <NoMetrics loaded={loaded} ended={runs.every((run) => has_ended(run.state))} /> : null}
      {names.length > 0 && shown.length === 0 ? <EmptyState title="No metric has this in its name." /> : null}
      {groups_of(shown).map(({ group, names: of_group }) => (
        <section key={group} aria-label={group === '' ? 'Metrics' : group}>
          {group !== '' ? (
            <h2 class="chart-group">
              {group} <span class="quiet-text">{plural(of_group.length, 'metric')}</span>
            </h2>
          ) : null}
          <div class="chart-grid">
            {of_group.map((name) => (
              <Chart key={name} board={board} name={name} settings={settings} />
            ))}
          </div>
        </section>
      ))}
      {names.length > 0 ? (
        <p class="chart-hint quiet-text">
          Drag across a chart to zoom into all of them, double click to go back. With a chart in focus: <kbd>←</kbd> <kbd>→</kbd> values, <kbd>+</kbd> <kbd>-</kbd>{' '}
          <kbd>0</kbd> zoom.
        </p>
      ) : null}
    </div>
  );
}

function NoMetrics({ loaded, ended }: { loaded: boolean; ended: boolean }) {
  if (!loaded) return <Loading what="the metrics" />;
  return (
    <EmptyState title={ended ? 'No values were reported.' : 'No values yet.'}>
      <p>Cohort programs report by themselves; of others, a line such as</p>
      <pre>step=100 loss=0.25</pre>
      <p>is read where the job file says how (metric_definitions).</p>
    </EmptyState>
  );
}
