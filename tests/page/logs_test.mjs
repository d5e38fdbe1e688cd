// Logs in a real browser: hundreds of thousands of lines, hostile bytes, a service that is started again, two people.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { axe_violations, Browser, shoot } from './browser.mjs';
import { line_count, rows, scroll_to, shows_line } from './person.mjs';
import { Service, source, until } from './service.mjs';

const kProgram = (name, ...words) => ['python3', join(source, 'tests/page/programs', name), ...words.map(String)];
let service, browser;

before(async () => {
  service = await Service.start('--cores', 4);
  browser = await Browser.start();
});
after(async () => {
  await browser?.close();
  await service?.remove();
});

// Rows are numbered from 1 and the program's lines from 0.
function check_numbers(shown) {
  assert.ok(shown.length > 5, `only ${shown.length} rows`);
  for (const { label, text } of shown) assert.match(text, new RegExp(`^line ${Number(label) - 1} `), `row ${label}`);
}

test('a log of 20 MB: every line where it belongs, at its ends and in between', async () => {
  const lines = 330_000;
  const job = await service.submit(kProgram('numbered.py', lines, 0), { name: 'large', cores: 0.5 });
  await service.reaches(job, 'succeeded');
  const page = await browser.person(service);
  await page.goto(`${service.address}/jobs/${job}/logs`);
  await shows_line(page, `line ${lines - 1} `);
  assert.equal(await line_count(page), lines);
  check_numbers(await rows(page));
  for (const part of [0, 0.5, 0.123, 0.9, 1]) {
    await scroll_to(page, part);
    check_numbers(await rows(page));
  }
  assert.equal((await rows(page)).at(-1).label, String(lines));
  await scroll_to(page, 0);
  assert.equal((await rows(page))[0].label, '1');
  // Ten turns of the wheel move a screen of a list of any length by as many pixels.
  const first = Number((await rows(page))[0].label);
  await page.locator('.log-list').hover();
  for (let i = 0; i < 10; ++i) await page.mouse.wheel(0, 180);
  await until('the list to move', async () => Number((await rows(page))[0].label) >= first + 100);
  assert.equal(Number((await rows(page))[0].label), first + 100);
  check_numbers(await rows(page));

  // A search finds what stands far behind, marks it and goes to it.
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('line 200500 ERROR');
  await page.keyboard.press('Enter');
  await shows_line(page, 'line 200500 ERROR');
  await until('the mark', async () => (await page.locator('.log-current .log-mark').textContent().catch(() => '')) === 'line 200500 ERROR');
  await page.getByRole('button', { name: 'Errors' }).click();
  await until('330 errors', async () => /of 330/.test(await page.locator('.log-found').textContent().catch(() => '')));
  await shows_line(page, 'line 500 ERROR');
  await page.locator('.log-list').focus();
  await page.keyboard.press('n');
  await shows_line(page, 'line 1500 ERROR');
  await page.keyboard.press('N');
  await shows_line(page, 'line 500 ERROR');
  await shoot(page, 'logs-search-light');
  await page.context().close();
});

test('hostile bytes are text, and the page stays quick', async () => {
  const job = await service.submit(kProgram('hostile.py'), {
    name: 'hostile',
    cores: 0.5,
    tags: { note: '<img src=x onerror=alert(3)>' },
    hyperparameters: {},
    env: { EVIL: '"><script>alert(4)</script>' },
    metric_definitions: [{ Name: '<b>loss</b>', Regex: 'loss=([-+.0-9a-z]+)' }],
  });
  await service.reaches(job, 'succeeded');
  const page = await browser.person(service);
  await page.goto(`${service.address}/jobs/${job}/logs`);
  await shows_line(page, 'the last line');
  const shown = await rows(page);
  assert.equal(shown[0].text.trim(), "<script>alert('log')</script><img src=x onerror=alert(1)>");
  assert.equal(shown[1].text.trim(), 'click');
  assert.match(shown[2].text, /^x{500,2000}… whole line$/);
  assert.match(shown[3].text, /^bad utf-8: \ufffd\ufffd\ufffd\( \ufffd+ \ufffd end$/);
  assert.equal(shown[4].text, 'red orange plain \ufffdevil');
  assert.match(shown[5].text, /^Z{2000}… whole line$/);
  assert.equal(shown[7].text, '\u2400\u2401\u2402 control');
  assert.ok((await page.locator('.log-row').nth(2).locator('span').count()) <= 210, 'a bomb of colours is not drawn piece by piece');
  await page.locator('.log-row').nth(5).getByRole('button').click();
  await until('the whole line', async () => (await page.locator('dialog .log-whole').textContent()).length === 16 * 1024);
  await page.keyboard.press('Escape');
  await page.evaluate(() => (document.querySelector('.log-list').scrollLeft = 0));
  // The page answers within a moment.
  const began = Date.now();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));
  assert.ok(Date.now() - began < 5000);
  assert.deepEqual(await axe_violations(page), []);
  await shoot(page, 'logs-hostile-light');
  for (const tab of ['', '/charts', '/timeline', '/files', '/configuration', '/logs?view=all']) {
    await page.goto(`${service.address}/jobs/${job}${tab}`);
    await page.getByRole('heading', { name: 'hostile' }).waitFor();
  }
  await page.goto(`${service.address}/jobs/${job}/charts`);
  await page.getByRole('figure', { name: 'Chart of <b>loss</b>' }).waitFor();
  await page.goto(`${service.address}/?q=${encodeURIComponent('<script>alert(5)</script>')}`);
  await page.getByRole('searchbox').waitFor();
  assert.equal(await page.evaluate(() => document.querySelectorAll('#app img[src="x"], #app script').length), 0);
  await page.context().close();
});

test('two people follow while the service is killed and started again, and one reloads: no line is missed or doubled', async () => {
  const lines = 2000;
  const job = await service.submit(kProgram('numbered.py', lines, 0.004), { name: 'follow', cores: 0.5 });
  await service.reaches(job, 'running');
  const one = await browser.person(service);
  const two = await browser.person(service, { dark: true });
  await one.goto(`${service.address}/jobs/${job}/logs`);
  await two.goto(`${service.address}/jobs/${job}/logs?view=all`);
  for (const page of [one, two]) await until('lines', async () => (await rows(page)).length > 3);
  await service.end('SIGKILL');
  await until('the page to say that the service is away', () => one.evaluate(() => /reconnect|does not answer|lost|no connection/i.test(document.body.innerText)));
  await service.run();
  const before = await line_count(one);
  await until('new lines', async () => (await line_count(one)) > before);
  await one.reload();
  await until('lines after the reload', async () => (await line_count(one)) > before);
  await service.reaches(job, 'succeeded');
  for (const page of [one, two]) {
    await until('all lines', async () => (await line_count(page)) >= lines);
    await shows_line(page, `line ${lines - 1} `);
    assert.equal(await line_count(page), lines);
  }
  for (const part of [0, 0.3, 0.7, 1]) {
    await scroll_to(one, part);
    check_numbers(await rows(one));
  }
  for (let part = 0; part <= 1; part += 0.1) {
    await scroll_to(two, part);
    const numbers = (await rows(two)).map(({ text }) => Number(/^line (\d+) /.exec(text)[1]));
    numbers.forEach((number, i) => assert.equal(number, numbers[0] + i));
  }
  await one.context().close();
  await two.context().close();
});

test('nothing was asked of other addresses, and no policy was broken', () => assert.deepEqual(browser.complaints, []));
