// One metric of all runs, drawn by uPlot while it is in view.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { format_duration, format_time, format_value } from '../format';
import { Button } from '../ui/button';
import { tell_error } from '../ui/toast';
import { aligned, type Axis, type Lines } from './aligned';
import type { Board, Range } from './board';
import type { Curve } from './curve';
import { save_csv, save_png } from './save';

export interface ChartSettings {
  axis: Axis;
  smoothing: number;
  log: boolean;
}

const kHeight = 220;
const kDetailMs = 250;

export function Chart({ board, name, settings }: { board: Board; name: string; settings: ChartSettings }) {
  const [wide, set_wide] = useState(false);
  const figure = useRef<HTMLElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLElement>(null);
  const key = `${settings.axis} ${settings.smoothing} ${settings.log}`;

  // In view it is drawn; out of it nothing but its place is left.
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        const visible = entries[entries.length - 1]!.isIntersecting;
        if (visible && !drawing.current) drawing.current = new Drawing(board, name, settings, box.current!, readout.current!);
        else if (!visible && drawing.current) {
          drawing.current.close();
          drawing.current = null;
        }
      },
      { rootMargin: '200px' },
    );
    observer.observe(figure.current!);
    return () => {
      observer.disconnect();
      drawing.current?.close();
      drawing.current = null;
    };
  }, [board, name]);
  useEffect(() => drawing.current?.configure(settings), [key]);

  const on_key = (event: KeyboardEvent): void => {
    if (event.target !== figure.current || event.ctrlKey || event.metaKey || event.altKey) return;
    if (drawing.current?.key(event.key)) event.preventDefault();
  };
  return (
    <figure ref={figure} class={wide ? 'chart chart-wide' : 'chart'} tabIndex={0} aria-label={`Chart of ${name}`} onKeyDown={on_key}>
      <figcaption class="chart-head">
        <span class="chart-name">{name}</span>
        <span class="chart-buttons">
          <Button kind="quiet" aria-label={`Download ${name} as CSV`} onClick={() => void save_csv(board.runs, name).catch(tell_error)}>
            CSV
          </Button>
          <Button kind="quiet" aria-label={`Download ${name} as PNG`} onClick={() => drawing.current?.save()}>
            PNG
          </Button>
          <Button kind="quiet" aria-pressed={wide} aria-label={`${wide ? 'Narrow' : 'Wide'} chart of ${name}`} onClick={() => set_wide(!wide)}>
            {wide ? '⤡' : '⤢'}
          </Button>
        </span>
      </figcaption>
      <div ref={box} class="chart-box" />
      <dl ref={(element) => void (readout.current = element)} class="chart-values number" aria-live="off" />
    </figure>
  );
}

// What belongs to the document while a chart is in view. Confined to one element.
class Drawing {
  private plot: uPlot | null = null;
  private lines: Lines = { x: [], runs: [] };
  private details: { range: Range; curves: (Curve | null)[] } | null = null;
  private detail_timer = 0;
  private readonly undo: (() => void)[] = [];

  constructor(
    private readonly board: Board,
    private readonly name: string,
    private settings: ChartSettings,
    private readonly box: HTMLElement,
    private readonly readout: HTMLElement,
  ) {
    this.make();
    this.undo.push(board.watch(name, () => this.refresh()));
    this.undo.push(board.range.watch(() => this.zoom()));
    const resized = new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: this.height }));
    resized.observe(box);
    this.undo.push(() => resized.disconnect());
    const remake = (): void => this.make();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', remake);
    addEventListener('cohort-theme', remake);
    this.undo.push(() => dark.removeEventListener('change', remake));
    this.undo.push(() => removeEventListener('cohort-theme', remake));
  }

  close(): void {
    for (const undo of this.undo) undo();
    clearTimeout(this.detail_timer);
    this.plot?.destroy();
    this.plot = null;
    this.readout.replaceChildren();
  }

  configure(settings: ChartSettings): void {
    if (settings.axis !== this.settings.axis) this.details = null;
    this.settings = settings;
    this.make();
  }

  save(): void {
    if (!this.plot) return;
    const runs = this.board.runs.map((run, i) => ({ name: run.name, colour: colour(i) }));
    save_png(this.plot.ctx.canvas, this.name, runs, { ground: token('--surface'), text: token('--text') });
  }

  // True: the key was for the chart.
  key(key: string): boolean {
    const plot = this.plot;
    if (!plot || this.lines.x.length === 0) return false;
    const { min, max } = plot.scales.x!;
    if (min == null || max == null) return false;
    const size = max - min;
    const centre = (min + max) / 2;
    this.readout.setAttribute('aria-live', 'polite');
    if (key === 'ArrowLeft' || key === 'ArrowRight') {
      const now = plot.cursor.idx ?? this.lines.x.length - 1;
      const next = Math.min(Math.max(0, now + (key === 'ArrowLeft' ? -1 : 1)), this.lines.x.length - 1);
      plot.setCursor({ left: plot.valToPos(this.lines.x[next]!, 'x'), top: plot.bbox.height / devicePixelRatio / 2 });
    } else if (key === '+') this.board.range.set({ min: centre - size / 4, max: centre + size / 4 });
    else if (key === '-') this.board.range.set(size * 2 >= this.whole() ? null : { min: centre - size, max: centre + size });
    else if (key === '0') this.board.range.set(null);
    else return false;
    return true;
  }

  private whole(): number {
    return this.lines.x[this.lines.x.length - 1]! - this.lines.x[0]!;
  }
  private get width(): number {
    return Math.max(120, this.box.clientWidth);
  }
  private get height(): number {
    return this.box.clientHeight || kHeight;
  }

  private make(): void {
    this.plot?.destroy();
    this.lines = this.table();
    this.plot = new uPlot(this.options(), this.columns(), this.box);
    this.zoom();
    this.show_values();
  }

  private refresh(): void {
    if (!this.plot) return;
    const before = this.lines.runs;
    this.lines = this.table();
    // A band or a run that was not there before needs another list of series.
    const shape = (runs: Lines['runs']): string => runs.map((run) => `${run.low !== null}`).join();
    if (shape(before) !== shape(this.lines.runs)) return this.make();
    this.plot.setData(this.columns(), false);
    this.scale();
    this.show_values();
  }

  private table(): Lines {
    const curves = this.board.curves(this.name).map((curve, i) => this.details?.curves[i] ?? curve);
    const began = this.board.runs.map((run, i) => run.started || (curves[i]?.time[0] ?? 0));
    return aligned(curves, began, this.settings.axis, this.settings.smoothing, this.settings.log);
  }

  private columns(): uPlot.AlignedData {
    const columns: (number | null)[][] = [];
    for (const run of this.lines.runs) {
      if (run.raw) columns.push(run.raw);
      if (run.low && run.high) columns.push(run.high, run.low);
      columns.push(run.line);
    }
    return [this.lines.x, ...columns] as uPlot.AlignedData;
  }

  private zoom(): void {
    const range = this.board.range.value;
    clearTimeout(this.detail_timer);
    if (!range && this.details) {
      this.details = null;
      this.refresh();
    }
    this.scale();
    if (range) this.detail_timer = window.setTimeout(() => void this.read_details(range), kDetailMs);
  }

  private scale(): void {
    const { x } = this.lines;
    const range = this.board.range.value ?? (x.length > 0 ? { min: x[0]!, max: x[x.length - 1]! } : null);
    if (!range || !this.plot) return;
    if (range.min === range.max) this.plot.setScale('x', { min: range.min - 0.5, max: range.max + 0.5 });
    else this.plot.setScale('x', range);
  }

  // Where points stand for many values the part in view is read again, finer.
  private async read_details(range: Range): Promise<void> {
    const curves = this.board.curves(this.name);
    if (!curves.some((curve) => curve?.low)) return;
    const steps = this.settings.axis === 'step' ? range : this.steps_in(range, curves);
    if (!steps) return;
    try {
      const found = await this.board.detail(this.name, steps.min, steps.max);
      if (!this.plot || this.board.range.value !== range) return;
      this.details = { range, curves: found };
      this.make();
    } catch {
      // The coarse curve stays.
    }
  }

  private steps_in(range: Range, curves: readonly (Curve | undefined)[]): Range | null {
    let found: Range | null = null;
    curves.forEach((curve, run) => {
      const began = this.board.runs[run]!.started || (curve?.time[0] ?? 0);
      curve?.time.forEach((time, i) => {
        const x = (this.settings.axis === 'clock' ? time : time - began) / 1000;
        if (x < range.min || x > range.max) return;
        const step = curve.step[i]!;
        found = { min: Math.min(found?.min ?? step, step), max: Math.max(found?.max ?? step, step) };
      });
    });
    return found;
  }

  private options(): uPlot.Options {
    const { axis, log } = this.settings;
    const text = token('--text-2');
    const grid = { stroke: token('--line'), width: 1 };
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    this.lines.runs.forEach((run, i) => {
      const stroke = colour(i);
      const points = { show: run.line.length < 2 };
      if (run.raw) series.push({ stroke: `${stroke}59`, width: 1, points });
      if (run.low && run.high) {
        bands.push({ series: [series.length, series.length + 1], fill: `${stroke}2e` });
        series.push({ stroke: 'transparent', points: { show: false } }, { stroke: 'transparent', points: { show: false } });
      }
      series.push({ stroke, width: 1.5, points });
    });
    const axes = { stroke: text, grid, ticks: grid, font: '11px system-ui, sans-serif' };
    return {
      width: this.width,
      height: this.height,
      padding: [10, 10, 0, 0],
      legend: { show: false },
      series,
      bands,
      scales: { x: { time: axis === 'clock' }, y: { distr: log ? 3 : 1 } },
      axes: [
        { ...axes, size: axis === 'clock' ? 44 : 28, ...(axis === 'clock' ? {} : { values: (_: uPlot, at: number[]) => at.map((value) => x_label(value, axis)) }) },
        { ...axes, size: 62, values: (_, at) => at.map((value) => (value == null ? '' : format_value(value))) },
      ],
      cursor: {
        sync: { key: 'charts', scales: ['x', null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
        bind: {
          dblclick: () => () => {
            this.board.range.set(null);
            return null;
          },
        },
      },
      hooks: {
        setCursor: [() => this.show_values()],
        setSelect: [
          (plot) => {
            if (plot.select.width < 4) return;
            const min = plot.posToVal(plot.select.left, 'x');
            const max = plot.posToVal(plot.select.left + plot.select.width, 'x');
            plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            this.board.range.set({ min, max });
          },
        ],
      },
    };
  }

  // The values under the crosshair, else the newest, as text.
  private show_values(): void {
    const at = this.plot?.cursor.idx;
    const rows = this.board.runs.map((run, i) => {
      const line = this.lines.runs[i]?.line ?? [];
      const place = nearest(line, at ?? line.length - 1);
      const value = place < 0 ? null : line[place]!;
      const where = place < 0 ? '' : x_text(this.lines.x[place]!, this.settings.axis);
      return { run, value: place < 0 ? 'no values' : format_value(value), where };
    });
    const invalid = this.board.curves(this.name).map((curve) => curve?.first_invalid ?? null);
    this.readout.replaceChildren(
      ...rows.flatMap(({ run, value, where }, i) => {
        const key = document.createElement('dt');
        key.textContent = rows.length > 1 ? run.name : where;
        key.className = `chart-run chart-run${(i % 8) + 1}`;
        const text = document.createElement('dd');
        text.textContent = rows.length > 1 && where ? `${value} (${where})` : value;
        if (invalid[i] !== null) {
          const note = document.createElement('span');
          note.className = 'chart-invalid';
          note.textContent = ` not finite from step ${invalid[i]}`;
          text.append(note);
        }
        return [key, text];
      }),
    );
  }
}

function nearest(line: readonly (number | null | undefined)[], from: number): number {
  for (let i = Math.min(from, line.length - 1); i >= 0; --i) if (line[i] != null) return i;
  return -1;
}

function x_label(value: number, axis: Axis): string {
  if (axis === 'duration') return format_duration(value);
  if (!Number.isInteger(value)) return '';
  return value >= 10_000 ? `${Number((value / 1000).toPrecision(6))}k` : String(value);
}

function x_text(value: number, axis: Axis): string {
  if (axis === 'duration') return `after ${format_duration(value)}`;
  return axis === 'clock' ? format_time(value * 1000) : `step ${value}`;
}

function colour(run: number): string {
  return token(`--series-${(run % 8) + 1}`);
}

function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
