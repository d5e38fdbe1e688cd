// A TensorFlow program of two workers on the page: its tasks, its loss out of its log, its log.
// usage: tensorflow_test.mjs PYTHON    (one that has TensorFlow; tests/frameworks/page_test.py)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { Browser } from './browser.mjs';
import { chart_value, shows_line } from './person.mjs';
import { Service, source, until } from './service.mjs';

const python = process.argv.slice(2).find((word) => !word.startsWith('-'));
let service, browser, page;

before(async () => {
  service = await Service.start('--cores', 4);
  browser = await Browser.start();
  page = await browser.person(service);
});
after(async () => {
  await browser?.close();
  await service?.remove();
});

test('a TensorFlow job is watched to its end', async () => {
  const script = join(source, 'tests/frameworks/scripts/tf_multi_worker_keras.py');
  const job = await service.submit([python, script], {
    name: 'keras',
    instance_count: 2,
    metric_definitions: [{ Name: 'loss', Regex: 'epoch \\d+ loss ([0-9.e-]+)' }],
  });
  await page.goto(`${service.address}/jobs/${job}`);
  await page.getByRole('button', { name: 'worker:1' }).waitFor();
  await service.reaches(job, 'succeeded');
  await page.getByText('succeeded').first().waitFor();
  await page.goto(`${service.address}/jobs/${job}/logs?task=worker:0`);
  await shows_line(page, 'trained worker/0');
  await page.goto(`${service.address}/jobs/${job}/charts`);
  const shown = await until('a value in the chart', async () => /[0-9]/.test(await chart_value(page, 'loss').catch(() => '')) && chart_value(page, 'loss'));
  assert.match(shown, /[0-9]/);
});
