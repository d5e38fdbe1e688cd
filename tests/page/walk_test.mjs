// A person's day with the page: sign in, find a job, watch it, stop it, scale it, see a worker killed, compare runs, with the
// keyboard and on a phone. Every page is looked at by axe and kept as a picture, light and dark.
// usage: walk_test.mjs MEMBER_PROGRAM
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { axe_violations, Browser, shoot } from './browser.mjs';
import { chart_value, overflows, rows, shows_line } from './person.mjs';
import { bin, Service, source, until } from './service.mjs';

const member_program = process.argv.slice(2).find((word) => !word.startsWith('-')) ?? join(source, 'build/tests/member_program');
const kProgram = (name, ...words) => ['python3', join(source, 'tests/page/programs', name), ...words.map(String)];
const metrics = ['loss', 'accuracy', 'val/loss', 'samples/s'].map((name) => ({ Name: name, Regex: `(?:^| )${name}=([0-9.]+)` }));
let service, browser, page, first, second, broken, elastic;

before(async () => {
  service = await Service.start('--cores', 6);
  browser = await Browser.start();
  // Before the first job the list says how to submit one.
  const newcomer = await browser.person(service, { still: true });
  await newcomer.getByText('cohort submit').first().waitFor();
  await shoot(newcomer, 'empty-light');
  assert.deepEqual(await axe_violations(newcomer), []);
  await newcomer.context().close();
  const one = { cores: 0.5, metric_definitions: metrics };
  [first, second, broken, elastic] = await Promise.all([
    service.submit(kProgram('curve.py', 200, 0.002, 0.1), { ...one, name: 'resnet-small', tags: { team: 'vision' }, hyperparameters: { depth: 18 } }),
    service.submit(kProgram('curve.py', 0, 0.05, 0.3), { ...one, name: 'resnet-large', instance_count: 2, hyperparameters: { depth: 50 } }),
    service.submit(kProgram('fails.py'), { ...one, name: 'broken' }),
    service.submit([member_program, '--until', join(service.folder, 'end'), '--stage-ms', '50'], { name: 'elastic', cores: 0.5, elastic: { min: 1, max: 3 }, restarts: 5 }),
  ]);
  await service.reaches(first, 'succeeded');
  await service.reaches(broken, 'failed');
  await Promise.all([second, elastic].map((job) => service.reaches(job, 'running')));
});
after(async () => {
  if (service) writeFileSync(join(service.folder, 'end'), '');
  await browser?.close();
  await service?.remove();
});

async function open(path, heading) {
  await page.goto(service.address + path);
  if (heading) await page.getByRole('heading', { name: heading }).first().waitFor();
}

test('a one-time link signs in, once', async () => {
  const { path } = await service.call('POST', '/v1/links');
  page = await browser.person(service, { signed_in: false });
  await page.goto(service.address + path);
  await page.getByRole('link', { name: 'resnet-large' }).waitFor();
  const stranger = await browser.person(service, { signed_in: false });
  await stranger.goto(service.address + path);
  await stranger.getByRole('alert').getByText('used already').waitFor();
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage)).then((kept) => /ct_|session/.test(kept)), false);
  assert.ok(!page.url().includes('code='));
  await stranger.context().close();
});

test('the list is live, found by search, opened by the keyboard', async () => {
  await open('/');
  await page.getByRole('link', { name: 'resnet-large' }).waitFor();
  const late = await service.submit(['sleep', '600'], { name: 'late-one', cores: 0.5 });
  await page.getByRole('link', { name: 'late-one' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('team=vision'.slice(5));
  await until('one row', async () => (await page.getByRole('link', { name: /late-one|broken/ }).count()) === 0);
  await page.getByRole('link', { name: 'resnet-small' }).waitFor();
  assert.match(page.url(), /q=vision/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'resnet-small' }).waitFor();
  // Stopped by its button, which asks first.
  await open(`/jobs/${late}`, 'late-one');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop the job' }).click();
  await service.reaches(late, 'stopped');
  await page.getByText('stopped', { exact: true }).first().waitFor();
});

test('a job is cloned, edited, checked and submitted from the page', async () => {
  await open(`/jobs/${first}`, 'resnet-small');
  await page.getByRole('button', { name: 'Clone' }).click();
  const field = page.getByRole('textbox', { name: 'Job description' });
  const spec = JSON.parse(await field.inputValue());
  await field.fill('{"name": ');
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('Not JSON').waitFor();
  await field.fill(JSON.stringify({ ...spec, name: 'resnet-clone' }));
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('would accept').waitFor();
  await page.getByRole('button', { name: 'Submit a new job' }).click();
  await page.getByRole('heading', { name: 'resnet-clone' }).waitFor();
  const { jobs } = await service.call('GET', '/v1/jobs?name=resnet-clone');
  assert.equal(jobs.length, 1);
  await service.reaches(jobs[0].id, 'succeeded');
});

test('charts are live and saved as CSV and PNG; a reload goes on', async () => {
  await open(`/jobs/${second}/charts`, 'resnet-large');
  await page.locator('figure[aria-label="Chart of loss"] canvas').waitFor();
  const step_of = async () => Number(/step (\d+)/.exec(await page.locator('figure[aria-label="Chart of loss"] dt').first().textContent())?.[1] ?? -1);
  const before = await step_of();
  await until('later steps', async () => (await step_of()) > before + 5);
  await page.reload();
  await until('steps after the reload', async () => (await step_of()) > before + 5);
  const drawn = await page.evaluate(() => {
    const canvas = document.querySelector('figure[aria-label="Chart of loss"] canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, i) => i % 4 === 2 && value > 150 && data[i - 2] < 60); // blue
  });
  assert.ok(drawn, 'no curve on the canvas');
  const csv = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download loss as CSV' }).click();
  const lines = readFileSync(await (await csv).path(), 'utf8').trim().split('\r\n');
  assert.equal(lines[0], 'run,metric,step,time,value');
  assert.ok(lines.length > before);
  assert.match(lines[1], /^resnet-large,loss,\d+,.*Z,\d+\.\d+$/);
  const png = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download loss as PNG' }).click();
  assert.equal(readFileSync(await (await png).path()).subarray(1, 4).toString(), 'PNG');
  // Another run over it; all of it in the address.
  await open(`/jobs/${second}/charts?with=${first}&smooth=0.6&x=duration`, 'resnet-large');
  await until('two runs', async () => (await page.locator('figure[aria-label="Chart of loss"] dd').count()) === 2);
  assert.match(await chart_value(page, 'loss'), /^\d/);
  await page.locator('figure[aria-label="Chart of loss"]').focus();
  await page.keyboard.press('+');
  await page.getByRole('button', { name: 'Whole range' }).click();
});

test('logs: followed, searched, beside each other', async () => {
  await open(`/jobs/${second}/logs`, 'resnet-large');
  const last = async () => Number((await rows(page)).at(-1)?.label ?? -1);
  await until('lines', async () => (await last()) > 3);
  const before = await last();
  await until('new lines to come into view', async () => (await last()) > before + 3);
  await page.keyboard.press('/');
  await page.keyboard.type('step=7 ');
  await page.keyboard.press('Enter');
  await shows_line(page, 'step=7 ');
  assert.equal(await page.locator('.log-mark').first().textContent(), 'step=7 ');
  await page.getByRole('button', { name: '+ Beside' }).click();
  await until('two logs', async () => (await page.locator('.log-list').count()) === 2);
  await until('lines of the other task', async () => (await rows(page, 1)).length > 3);
  assert.deepEqual(new URL(page.url()).searchParams.getAll('task'), ['worker:0', 'worker:1']);
  await page.getByRole('button', { name: 'All tasks' }).click();
  await until('both in one list', async () => new Set((await rows(page)).map(({ label }) => label)).size === 2);
});

test('a failed job says why, and its log opens at the task to blame', async () => {
  await open(`/jobs/${broken}`, 'broken');
  await page.getByText('FileNotFoundError').first().waitFor();
  await open(`/jobs/${broken}/logs?errors=1`, 'broken');
  await shows_line(page, 'FileNotFoundError');
  await until('the mark', async () => (await page.locator('.log-current').count()) === 1);
  // Resumed by its button it fails again; the log of each attempt can be chosen.
  await open(`/jobs/${broken}/logs`, 'broken');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
  await until('a second attempt that failed', async () => {
    const { attempt, state } = await service.job(broken);
    return attempt === 2 && state === 'failed';
  });
  await page.getByRole('combobox', { name: 'Attempt' }).selectOption('1');
  await until('the address to say so', () => new URL(page.url()).searchParams.get('attempt') === '1');
  await shows_line(page, 'FileNotFoundError');
  await page.getByRole('button', { name: 'Go to time' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Go', exact: true }).click();
  await shows_line(page, 'step=1 ');
});

test('an elastic job: a killed worker, then one more; the timeline tells', async () => {
  await open(`/jobs/${elastic}/timeline`, 'elastic');
  const usage = () => service.call('GET', `/v1/jobs/${elastic}/tasks?usage=1`);
  const victim = await until('a second worker', async () => (await usage()).tasks.find((task) => task.name === 'worker:1' && task.pid));
  process.kill(victim.pid, 'SIGKILL');
  await page.getByRole('cell', { name: /was killed by signal 9/ }).first().waitFor();
  await page.getByRole('cell', { name: /^view \d+:/ }).first().waitFor();
  await until('it to be started again', async () => (await usage()).tasks.some((task) => task.name === 'worker:1' && task.restarts > 0 && task.state === 'running'));
  await page.getByRole('button', { name: 'Scale', exact: true }).click();
  await page.getByRole('spinbutton').fill('2');
  await page.getByRole('dialog').getByRole('button', { name: 'Scale' }).click();
  await until('two workers', async () => (await service.job(elastic)).instances === 2);
  const trace = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Timeline as trace' }).click();
  assert.ok(JSON.parse(readFileSync(await (await trace).path(), 'utf8')).traceEvents.some((event) => event.cat === 'evicted'));
});

test('runs are compared: what is different, and curves over each other', async () => {
  await open(`/compare?job=${first}`, 'Compare');
  await page.getByRole('button', { name: 'Add a run' }).click();
  await page.getByRole('dialog').getByRole('button', { name: /resnet-large/ }).click();
  await page.getByRole('rowheader', { name: 'hyperparameters.depth' }).waitFor();
  const row = page.getByRole('row', { name: /hyperparameters\.depth/ });
  assert.deepEqual(await row.getByRole('cell').allTextContents(), ['18', '50']);
  await until('curves', async () => (await page.locator('figure[aria-label="Chart of loss"] dd').count()) === 2);
});

test('a C++ program with one worker and with two ends with the same bits, and the page shows it', async (t) => {
  const mnist = join(bin, 'mnist');
  const data = '/usr/share/datasets/fashion-mnist';
  if (!existsSync(mnist) || !existsSync(data)) return t.skip('no bin/mnist, or no data set');
  const program = [mnist, '--data_dir', data, '--max_steps', '20', '--virtual_shards', '4', '--trace'];
  const jobs = [];
  for (const count of [1, 2]) jobs.push(await service.submit(program, { name: `mnist-${count}`, instance_count: count, cores: 1 }));
  for (const job of jobs) await service.reaches(job, 'succeeded');
  await open(`/compare?job=${jobs[0]}&job=${jobs[1]}`, 'Compare');
  await page.getByText('The same bits').waitFor();
  await shoot(page, 'same-bits-light');
  await open(`/jobs/${jobs[1]}/timeline`, 'mnist-2');
  const trace = page.waitForEvent('download');
  await page.getByRole('link', { name: /trace\.json/ }).click();
  assert.ok(JSON.parse(readFileSync(await (await trace).path(), 'utf8')));
  await open(`/jobs/${jobs[1]}/logs`, 'mnist-2');
  const log = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download the log of worker:0' }).click();
  assert.match(readFileSync(await (await log).path(), 'utf8'), /^weights [0-9a-f]+$/m);
});

test('a token that is taken away: the page asks to sign in and goes on where it was', async () => {
  const made = await service.call('POST', '/v1/tokens', { user: 'root', role: 'admin' });
  const person = await browser.person(service, { signed_in: false });
  await person.goto(`${service.address}/jobs/${second}/logs`);
  await person.getByLabel('Token').fill('ct_wrong');
  await person.getByRole('button', { name: 'Sign in' }).click();
  await person.getByRole('alert').getByText('does not know this token').waitFor();
  await person.getByLabel('Token').fill(made.token);
  await person.getByRole('button', { name: 'Sign in' }).click();
  await until('the log', async () => (await rows(person)).length > 3);
  await service.call('DELETE', `/v1/tokens/${made.id}`);
  await person.getByLabel('Token').waitFor();
  await shoot(person, 'sign-in-light');
  assert.deepEqual(await axe_violations(person), []);
  const count = Number((await person.locator('.log-size').textContent()).match(/^([\d,]+)/)[1].replaceAll(',', ''));
  await person.getByLabel('Token').fill(service.token);
  await person.getByRole('button', { name: 'Sign in' }).click();
  await until('the log to go on', async () => Number((await rows(person)).at(-1)?.label ?? 0) > count + 3);
  await person.context().close();
});

test('every page, light and dark and on a phone, has nothing that axe finds', async () => {
  const pages = [
    ['jobs', '/', null],
    ['overview', `/jobs/${elastic}`, 'elastic'],
    ['charts', `/jobs/${second}/charts?with=${first}`, 'resnet-large'],
    ['logs', `/jobs/${second}/logs?task=worker:0&task=worker:1`, 'resnet-large'],
    ['logs-all', `/jobs/${second}/logs?view=all`, 'resnet-large'],
    ['timeline', `/jobs/${elastic}/timeline`, 'elastic'],
    ['failure', `/jobs/${broken}`, 'broken'],
    ['files', `/jobs/${broken}/files`, 'broken'],
    ['configuration', `/jobs/${first}/configuration`, 'resnet-small'],
    ['compare', `/compare?job=${first}&job=${second}`, 'Compare'],
    ['cluster', '/cluster', null],
    ['unknown', '/no/such/page', null],
  ];
  const found = [];
  for (const [kind, options] of Object.entries({ light: {}, dark: { dark: true }, phone: { width: 360, height: 740 } })) {
    page = await browser.person(service, { ...options, still: true });
    for (const [name, path, heading] of pages) {
      await open(path, heading);
      await page.waitForFunction(() => !/Loading/.test(document.querySelector('#main')?.textContent ?? 'Loading'));
      if (/charts|compare/.test(name)) await page.locator('canvas').first().waitFor();
      if (/logs/.test(name)) await until('lines', async () => (await rows(page)).length > 3);
      if (kind !== 'phone' || /jobs|overview|charts|logs$/.test(name)) await shoot(page, `${name}-${kind}`);
      found.push(...(await axe_violations(page)).map((violation) => `${name}, ${kind}: ${violation}`));
      if (await overflows(page)) found.push(`${name}, ${kind}: wider than the window`);
    }
    await page.context().close();
  }
  assert.deepEqual(found, []);
});

test('nothing was asked of other addresses, and no policy was broken', () => assert.deepEqual(browser.complaints, []));
