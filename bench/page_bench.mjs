// Measures the page in a real browser against a real service; page_bench.py runs it and judges the figures.
// usage: page_bench.mjs SECTION [--quick]; prints sentences, and figures as JSON, one a line.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { Browser } from '../tests/page/browser.mjs';
import { line_count, rows, shows_line } from '../tests/page/person.mjs';
import { Service, source, until } from '../tests/page/service.mjs';

const quick = process.argv.includes('--quick');
const kTicks = 100; // of /proc a second
const loss = [{ Name: 'loss', Regex: 'loss=([0-9.]+)' }];

function figure(name, values, measured) {
  const sorted = [...values].sort((a, b) => a - b);
  console.log(JSON.stringify({ name, values, measured: measured ?? sorted[Math.floor(sorted.length / 2)] }));
}

// Processor seconds and resident bytes of a process.
function usage(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
  return { seconds: (Number(fields[11]) + Number(fields[12])) / kTicks, bytes: Number(fields[21]) * 4096 };
}

// Ids of this program's browser processes of one kind: "renderer", "gpu-process".
function processes(kind) {
  const parents = new Map();
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
    try {
      parents.set(name, readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1).split(' ')[1]);
    } catch {
      // It has just ended.
    }
  }
  const is_ours = (pid) => pid === String(process.pid) || (parents.has(pid) && is_ours(parents.get(pid)));
  const found = [...parents.keys()].filter((pid) => is_ours(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`--type=${kind}`));
  assert.ok(found.length > 0, `no process of the kind ${kind}`);
  return found;
}

const seconds_of = (pids) => pids.reduce((sum, pid) => sum + usage(pid).seconds, 0);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function bundle() {
  const folder = join(source, 'web/dist');
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, entry) => sum + gzipSync(readFileSync(join(entry.parentPath, entry.name)), { level: 9 }).length, 0);
  assert.ok(files.length >= 3);
  console.log(`bundle: ${files.length} files, ${bytes} bytes after gzip`);
  figure('page_bundle_gzip_bytes', [bytes]);
}

async function paint(service, browser) {
  const points = 100_000;
  const tasks = 64;
  const text = `
import os, sys, time
if int(os.environ["COHORT_RANK"]) == 0:
    for step in range(${points / 4}):
        print(f"loss={2 / (1 + step / 1e3):.5f} accuracy={step / 1e5:.5f} rate={step % 97}.5 lr={0.1 / (1 + step):.6f}")
    sys.stdout.flush()
time.sleep(3600)
`;
  const metric_definitions = ['loss', 'accuracy', 'rate', 'lr'].map((name) => ({ Name: name, Regex: `\\b${name}=([0-9.]+)` }));
  const job = await service.submit(['python3', '-c', text], { name: 'large', instance_count: tasks, cores: 1, metric_definitions });
  await service.reaches(job, 'running');
  const count = async () => (await service.call('GET', `/v1/jobs/${job}/series?points=10`)).series.reduce((sum, one) => sum + one.count, 0);
  await until(`${points} values`, async () => (await count()) >= points);
  const page = await browser.person(service);
  const measure = async (path, ready) => {
    const times = [];
    for (let round = 0; round < (quick ? 3 : 7); ++round) {
      await page.goto('about:blank');
      await page.goto(service.address + path, { waitUntil: 'commit' });
      const handle = await page.waitForFunction(ready, tasks, { polling: 'raf' });
      times.push((await handle.jsonValue()) / 1000);
    }
    return times;
  };
  const overview = await measure(`/jobs/${job}`, (wanted) => document.querySelectorAll('.tile').length === wanted && performance.now());
  const charts = await measure(`/jobs/${job}/charts`, () => document.querySelectorAll('.chart canvas').length >= 4 && /step 24999/.test(document.body.textContent) && performance.now());
  assert.equal(await count(), points);
  console.log(`paint: ${tasks} tasks and ${points} values: overview after ${Math.max(...overview).toFixed(2)} s at most, charts after ${Math.max(...charts).toFixed(2)} s`);
  figure('page_paint_overview_s', overview);
  figure('page_paint_charts_s', charts);
}

async function live(service, browser) {
  const rate = 60;
  const text = `
import time
begin = time.monotonic()
step = 0
while True:
    step += 1
    print(f"loss={2 / (1 + step / 1e3) + step % 7 / 100:.5f}", flush=True)
    time.sleep(max(0, begin + step / ${rate} - time.monotonic()))
`;
  const job = await service.submit(['python3', '-c', text], { name: 'live', cores: 1, metric_definitions: loss });
  await service.reaches(job, 'running');
  const page = await browser.person(service);
  await page.goto(`${service.address}/jobs/${job}/charts`);
  const step = async () => Number(/step (\d+)/.exec(await page.locator('.chart-values dt').first().textContent())?.[1] ?? -1);
  await until('a chart', async () => (await page.locator('.chart canvas').count()) === 1 && (await step()) > 60);
  await pause(2000); // what a page does once is done
  const seconds = quick ? 5 : 20;
  const pids = processes('renderer');
  const gpu = processes('gpu-process');
  const before = [await step(), seconds_of(pids), seconds_of(gpu), performance.now()];
  await pause(seconds * 1000);
  const wall = (performance.now() - before[3]) / 1000;
  const cores = (seconds_of(pids) - before[1]) / wall;
  const drawing = (seconds_of(gpu) - before[2]) / wall;
  const shown = ((await step()) - before[0]) / wall;
  assert.ok(shown > 0.7 * rate, `only ${shown} values a second are shown`);
  console.log(`live: ${shown.toFixed(1)} values a second in a chart take ${(100 * cores).toFixed(1)}% of a core (and ${(100 * drawing).toFixed(1)}% to draw without a graphics card)`);
  figure('page_live_cores', [cores]);
  figure('page_live_software_drawing_cores', [drawing]);
}

// 30 minutes of 60 values and lines a second, in a fraction of the time.
async function memory(service, browser) {
  const values = quick ? 36_000 : 108_000;
  const text = `
import time
for step in range(${values}):
    print(f"loss={2 / (1 + step / 1e3):.5f} ".ljust(120, "."), flush=step % 30 == 0)
    if step % 30 == 0: time.sleep(0.008)
time.sleep(3600)
`;
  const job = await service.submit(['python3', '-c', text], { name: 'long', cores: 1, metric_definitions: loss });
  await service.reaches(job, 'running');
  const charts = await browser.person(service);
  const logs = await browser.person(service);
  await charts.goto(`${service.address}/jobs/${job}/charts`);
  await logs.goto(`${service.address}/jobs/${job}/logs`);
  const heap = async (page) => {
    const session = await page.context().newCDPSession(page);
    for (let i = 0; i < 3; ++i) await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    await session.detach();
    return usedSize / 1e6;
  };
  const step = async () => Number(/step (\d+)/.exec(await charts.locator('.chart-values dt').first().textContent())?.[1] ?? -1);
  const seen = { charts: [], logs: [] };
  for (let part = 1; part <= 5; ++part) {
    const wanted = (part * values) / 5;
    await until(`${wanted} values`, async () => (await step()) >= wanted - 2, 600_000);
    await until(`${wanted} lines`, async () => (await line_count(logs)) >= wanted - 2, 600_000);
    seen.charts.push(await heap(charts));
    seen.logs.push(await heap(logs));
  }
  await shows_line(logs, `loss=${(2 / (1 + (values - 1) / 1e3)).toFixed(5)}`);
  assert.equal(await line_count(logs), values);
  for (const [name, sizes] of Object.entries(seen)) {
    // From the second fifth on: by then everything that is bounded has reached its bound.
    console.log(`memory: ${name} after each fifth of ${values} values: ${sizes.map((size) => size.toFixed(1)).join(', ')} MB`);
    figure(`page_memory_${name}_mb`, sizes);
    figure(`page_memory_${name}_growth`, [sizes[4] / Math.max(sizes[1], sizes[2])]);
  }
}

async function log(service, browser) {
  const lines = quick ? 200_000 : 2_000_000;
  const program = ['python3', join(source, 'tests/page/programs/numbered.py'), String(lines), '0', '100'];
  const job = await service.submit(program, { name: 'huge', cores: 1 });
  await service.reaches(job, 'succeeded');
  const page = await browser.person(service);
  const opens = [];
  for (let round = 0; round < 3; ++round) {
    await page.goto('about:blank');
    const began = performance.now();
    await page.goto(`${service.address}/jobs/${job}/logs`);
    await shows_line(page, `line ${lines - 1} `);
    opens.push((performance.now() - began) / 1000);
  }
  assert.equal(await line_count(page), lines);
  // A second of the wheel, with the time of every frame.
  const frames = await page.evaluate(async () => {
    const list = document.querySelector('.log-list');
    list.dispatchEvent(new WheelEvent('wheel'));
    list.scrollTop = list.scrollHeight / 2;
    await new Promise((done) => setTimeout(done, 500));
    const times = [];
    let before = performance.now();
    for (let i = 0; i < 90; ++i) {
      list.scrollTop += 54;
      await new Promise((done) => requestAnimationFrame(done));
      times.push(performance.now() - before);
      before = performance.now();
    }
    return times.slice(5);
  });
  for (const { label, text } of await rows(page)) assert.match(text, new RegExp(`^line ${Number(label) - 1} `));
  const began = performance.now();
  await page.goto(`${service.address}/jobs/${job}/logs?q=${encodeURIComponent(`line ${lines - 2000} `)}`);
  await shows_line(page, `line ${lines - 2000} `);
  const search = (performance.now() - began) / 1000;
  const sorted = [...frames].sort((a, b) => a - b);
  console.log(`log: ${(lines * 100) / 1e6} MB, ${lines} lines: its end after ${Math.max(...opens).toFixed(2)} s, a word near its end found after ${search.toFixed(2)} s, frames of ${sorted[42].toFixed(1)} ms (95%: ${sorted[80].toFixed(1)} ms) while it is scrolled`);
  figure('page_log_200mb_open_s', opens);
  figure('page_log_200mb_search_s', [search]);
  figure('page_log_200mb_frame_ms', frames);
}

async function pages(service, browser) {
  const count = quick ? 16 : 64;
  const text = `
import os, time
step = 0
while not os.path.exists(${JSON.stringify(join(service.folder, 'end'))}):
    step += 1
    print(f"line {step - 1} loss={2 / step:.5f}", flush=True)
    time.sleep(0.1)
`;
  const job = await service.submit(['python3', '-c', text], { name: 'watched', cores: 1, metric_definitions: loss });
  await service.reaches(job, 'running');
  const open = [];
  for (let i = 0; i < count; ++i) {
    const page = await browser.person(service, { width: 800, height: 500 });
    await page.goto(`${service.address}/jobs/${job}/${i % 2 === 0 ? 'logs' : 'charts'}`);
    open.push(page);
  }
  await until('every page to show something', async () => {
    for (let i = 0; i < count; ++i) if (!(await open[i].locator(i % 2 === 0 ? '.log-row' : '.chart canvas').count())) return false;
    return true;
  }, 600_000);
  const seconds = quick ? 5 : 15;
  const before = usage(service.process.pid);
  const answers = [];
  const began = performance.now();
  while (performance.now() - began < seconds * 1000) {
    const asked = performance.now();
    await service.call('GET', '/v1/jobs?latest=1');
    answers.push(performance.now() - asked);
    await pause(100);
  }
  const after = usage(service.process.pid);
  const cores = (after.seconds - before.seconds) / ((performance.now() - began) / 1000);
  (await import('node:fs')).writeFileSync(join(service.folder, 'end'), '');
  await service.reaches(job, 'succeeded');
  const log = await fetch(`${service.address}/v1/jobs/${job}/logs?task=worker:0&limit=1048576`, { headers: { Authorization: `Bearer ${service.token}` } });
  const lines = (await log.text()).split('\n').length - 1;
  let missing = 0;
  for (let i = 0; i < count; i += 2) {
    await until('the last line', async () => (await line_count(open[i])) >= lines, 300_000);
    missing += Math.abs((await line_count(open[i])) - lines);
  }
  answers.sort((a, b) => a - b);
  console.log(`pages: ${count} open, half at the log and half at the charts of a job: the service takes ${(100 * cores).toFixed(0)}% of a core and ${(after.bytes / 1e6).toFixed(0)} MB, and answers the list within ${answers[Math.floor(answers.length / 2)].toFixed(0)} ms; ${missing} lines are missing`);
  figure('page_64_pages_missing_lines', [missing]);
  figure('page_64_pages_service_cores', [cores]);
  figure('page_64_pages_list_ms', answers);
}

const sections = { bundle, paint, live, memory, log, pages };
const section = sections[process.argv[2]];
if (!section) throw new Error(`no section ${process.argv[2]}; there are: ${Object.keys(sections).join(', ')}`);
if (section === bundle) bundle();
else {
  const service = await Service.start('--cores', 64);
  const browser = await Browser.start();
  try {
    await section(service, browser);
    assert.deepEqual(browser.complaints, []);
  } finally {
    await browser.close();
    await service.remove();
  }
}
