// Values as CSV, a chart as PNG, saved by the browser.
import { get_json, job_path } from '../api/client';
import type { Metric } from '../api/types';
import type { Run } from './board';

const kPage = 10_000;
const kMostRows = 2_000_000;

export async function save_csv(runs: readonly Run[], name: string): Promise<void> {
  const lines = ['run,metric,step,time,value'];
  for (const run of runs)
    for await (const metric of all_of(run.id, name)) {
      lines.push([run.name, metric.name, metric.step, metric.time, metric.value ?? 'nan'].map(csv_field).join(','));
      if (lines.length > kMostRows) throw new Error(`More than ${kMostRows} values: get them by the API (/metrics).`);
    }
  save(new Blob([lines.join('\r\n') + '\r\n'], { type: 'text/csv' }), `${file_name(name)}.csv`);
}

async function* all_of(job: string, name: string): AsyncGenerator<Metric> {
  for (let after = 0; ; ) {
    const page = await get_json<{ metrics: Metric[]; next: number }>(job_path(job, 'metrics'), { name, after, limit: kPage });
    yield* page.metrics;
    if (page.metrics.length < kPage || page.next <= after) return;
    after = page.next;
  }
}

// Quoted where needed; a text that a spreadsheet would take for a formula gets an apostrophe.
export function csv_field(value: string | number): string {
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function file_name(name: string): string {
  return name.replace(/[^\w.-]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 100) || 'metric';
}

export function save_png(chart: HTMLCanvasElement, title: string, runs: readonly { name: string; colour: string }[], colours: { ground: string; text: string }): void {
  const scale = devicePixelRatio || 1;
  const head = 28 * scale;
  const foot = runs.length > 1 ? 20 * scale * runs.length + 8 * scale : 0;
  const canvas = document.createElement('canvas');
  canvas.width = chart.width;
  canvas.height = chart.height + head + foot;
  const pen = canvas.getContext('2d');
  if (!pen) return;
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(chart, 0, head);
  pen.fillStyle = colours.text;
  pen.font = `600 ${13 * scale}px sans-serif`;
  pen.fillText(title, 10 * scale, 19 * scale, canvas.width - 20 * scale);
  pen.font = `${12 * scale}px sans-serif`;
  runs.forEach((run, i) => {
    if (runs.length < 2) return;
    const y = chart.height + head + (16 + 20 * i) * scale;
    pen.fillStyle = run.colour;
    pen.fillRect(10 * scale, y - 9 * scale, 10 * scale, 10 * scale);
    pen.fillStyle = colours.text;
    pen.fillText(run.name, 26 * scale, y, canvas.width - 36 * scale);
  });
  canvas.toBlob((blob) => blob && save(blob, `${file_name(title)}.png`), 'image/png');
}

export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
