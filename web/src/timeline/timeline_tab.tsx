import { useEffect, useRef, useState } from 'preact/hooks';
import { get_json, job_path, sentence_of } from '../api/client';
import { has_ended, type JobDetail, type StoredFile, type TimelineEntry } from '../api/types';
import { file_name, save } from '../charts/save';
import { format_bytes, format_duration, format_time } from '../format';
import { set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import { usePolled } from '../ui/use_polled';
import { useNow } from '../ui/use_now';
import { kind_text, model_of, ticks, tone_of, trace_of, type Model } from './timeline_model';

const kEveryMs = 2000;
const kLane = 26;
const kLabel = 118;
const kHead = 22;
const kMostRows = 500;

export function TimelineTab({ job }: { job: JobDetail }) {
  const runs = !has_ended(job.state);
  const { value, error } = usePolled(`${job.id} ${job.attempt} ${job.state}`, runs ? kEveryMs : 0, (signal) =>
    get_json<{ entries: TimelineEntry[] }>(job_path(job.id, 'timeline'), {}, signal),
  );
  const now = useNow(runs ? 1000 : 60_000);
  const { query } = useAddress();
  const [marked, set_marked] = useState(-1);
  if (!value) return error ? <EmptyState title={sentence_of(error)} /> : <Loading what="the timeline" />;
  const kinds = [...new Set(value.entries.map((entry) => entry.kind))].sort();
  const kind = kinds.find((one) => one === query.get('kind')) ?? '';
  const entries = value.entries.filter((entry) => kind === '' || entry.kind === kind);
  const model = model_of(value.entries, runs ? now : 0);
  if (value.entries.length === 0) return <EmptyState title="Nothing has happened yet." />;
  return (
    <div class="timeline">
      <div class="timeline-tools" role="toolbar" aria-label="Timeline">
        <label class="timeline-filter">
          <span>Show</span>
          <select class="select" value={kind} onChange={(event) => set_query({ kind: event.currentTarget.value })}>
            <option value="">everything</option>
            {kinds.map((one) => (
              <option key={one} value={one}>
                {kind_text(one)}
              </option>
            ))}
          </select>
        </label>
        <span class="log-space" />
        <Traces job={job} />
        <Button kind="quiet" onClick={() => save(new Blob([JSON.stringify(trace_of(model, job.name))], { type: 'application/json' }), `${file_name(job.name)}-timeline.json`)}>
          Timeline as trace
        </Button>
      </div>
      <Picture model={model} marked={marked} on_mark={set_marked} kind={kind} />
      <Table entries={entries} all={value.entries} begin={model.begin} marked={marked} on_mark={set_marked} />
    </div>
  );
}

interface PictureProps {
  model: Model;
  marked: number;
  on_mark: (index: number) => void;
  kind: string;
}

function Picture({ model, marked, on_mark, kind }: PictureProps) {
  const box = useRef<HTMLDivElement>(null);
  const [width, set_width] = useState(800);
  useEffect(() => {
    const observer = new ResizeObserver(() => set_width(box.current!.clientWidth));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  const length = model.end - model.begin;
  const room = Math.max(60, width - kLabel - 16);
  const x = (time: number): number => kLabel + ((time - model.begin) / length) * room;
  const height = kHead + model.lanes.length * kLane + 4;
  return (
    <div ref={box} class="timeline-box" tabIndex={0} role="region" aria-label="Picture of the timeline; the table below says the same">
      <svg width={width} height={height} role="img" aria-label={`${model.lanes.length - 1} tasks over ${format_duration(length / 1000)}`}>
        {ticks(length, Math.max(2, Math.floor(room / 90))).map((at) => (
          <g key={at}>
            <line class="timeline-grid" x1={x(model.begin + at)} x2={x(model.begin + at)} y1={kHead - 4} y2={height} />
            <text class="timeline-tick" x={x(model.begin + at)} y={13} text-anchor={at === 0 ? 'start' : 'middle'}>
              {at === 0 ? format_time(model.begin).slice(11) : `+${at < 1000 ? `${at}ms` : format_duration(at / 1000)}`}
            </text>
          </g>
        ))}
        {model.lanes.map((lane, i) => {
          const y = kHead + i * kLane;
          return (
            <g key={lane.task}>
              <text class="timeline-task" x={4} y={y + 17}>
                {lane.task || 'job'}
              </text>
              {lane.bars.map((bar, at) => (
                <rect key={at} class={`timeline-bar timeline-${bar.tone}`} x={x(bar.from)} y={y + 6} width={Math.max(2, x(bar.to) - x(bar.from))} height={kLane - 12} rx={3} />
              ))}
              {lane.marks.map((mark) =>
                kind !== '' && mark.entry.kind !== kind ? null : (
                  <g key={mark.index} class={`timeline-mark timeline-${mark.tone}${mark.index === marked ? ' timeline-marked' : ''}`} onMouseEnter={() => on_mark(mark.index)} onMouseLeave={() => on_mark(-1)}>
                    <title>{`${kind_text(mark.entry.kind)}: ${mark.entry.text}`}</title>
                    {mark.tone === 'bad' ? (
                      <path d={`M${x(mark.time) - 4} ${y + 9}l8 8m0 -8l-8 8`} />
                    ) : mark.tone === 'go' ? (
                      <path d={`M${x(mark.time)} ${y + 7}l5 6l-5 6l-5 -6z`} />
                    ) : (
                      <circle cx={x(mark.time)} cy={y + 13} r={4.5} />
                    )}
                  </g>
                ),
              )}
            </g>
          );
        })}
      </svg>
      {model.hidden > 0 ? <p class="quiet-text">{model.hidden} more tasks are in the table only.</p> : null}
    </div>
  );
}

interface TableProps {
  entries: readonly TimelineEntry[];
  all: readonly TimelineEntry[];
  begin: number;
  marked: number;
  on_mark: (index: number) => void;
}

function Table({ entries, all, begin, marked, on_mark }: TableProps) {
  const places = new Map(all.map((entry, i) => [entry, i]));
  const shown = entries.slice(-kMostRows);
  return (
    <div class="timeline-table" tabIndex={0} role="region" aria-label="Timeline as a table">
      <table>
        <caption class="off-screen">What happened, the newest first</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">After</th>
            <th scope="col">What</th>
            <th scope="col">Task</th>
            <th scope="col">How</th>
          </tr>
        </thead>
        <tbody>
          {[...shown].reverse().map((entry) => {
            const index = places.get(entry)!;
            return (
              <tr key={index} class={index === marked ? 'timeline-row-marked' : ''} onMouseEnter={() => on_mark(index)} onMouseLeave={() => on_mark(-1)}>
                <td class="number">{format_time(entry.time)}</td>
                <td class="number quiet-text">{format_duration((Date.parse(entry.time) - begin) / 1000)}</td>
                <td>
                  <span class={`badge tone-${tone_of(entry)}`}>{kind_text(entry.kind)}</span>
                </td>
                <td>{entry.task}</td>
                <td class="timeline-text">{entry.text}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {entries.length > shown.length ? <p class="quiet-text">{entries.length - shown.length} older entries are not shown.</p> : null}
    </div>
  );
}

// Traces that the job itself has written, as files for Perfetto.
function Traces({ job }: { job: JobDetail }) {
  const { value } = usePolled(`${job.id} ${job.state}`, 0, (signal) => get_json<{ files: StoredFile[] }>(job_path(job.id, 'files'), {}, signal));
  const traces = (value?.files ?? []).filter(({ path }) => /(^|\/)trace[^/]*\.json(\.gz)?$/.test(path));
  const merged = traces.find(({ path }) => /(^|\/)trace\.json/.test(path));
  return (
    <>
      {(merged ? [merged] : traces.slice(0, 4)).map(({ path, bytes }) => (
        <a key={path} class="button" href={job_path(job.id, 'files', path)} download={path.replace(/^.*\//, '')} title="Open it in ui.perfetto.dev">
          {path.replace(/^.*\//, '')} ({format_bytes(bytes)})
        </a>
      ))}
    </>
  );
}
