// What a person does and sees on the page, for the tests.
import { until } from './service.mjs';

/** The rows of a log that are on the screen: {label, text}. */
export function rows(page, pane = 0) {
  return page.evaluate(
    (number) =>
      [...(document.querySelectorAll('.log-list')[number]?.querySelectorAll('.log-row') ?? [])].map((row) => ({
        label: row.firstElementChild.textContent,
        text: row.lastElementChild.textContent,
      })),
    pane,
  );
}

/** "1,234 lines, 56 kB" -> 1234. */
export async function line_count(page, pane = 0) {
  const text = await page.locator('.log-size').nth(pane).textContent();
  return Number(/^([\d,]+) lines/.exec(text)?.[1].replaceAll(',', '') ?? -1);
}

export function shows_line(page, wanted, pane = 0) {
  return until(`a line with "${wanted}" on the screen`, async () => (await rows(page, pane)).some(({ text }) => text.includes(wanted)));
}

/** Moves the scroll bar of a log to a part of it, 0 to 1, and waits until its rows are read. */
export async function scroll_to(page, part, pane = 0) {
  await page.evaluate(
    ([number, where]) => {
      const list = document.querySelectorAll('.log-list')[number];
      list.dispatchEvent(new WheelEvent('wheel')); // a list that is followed is moved by a person's hand only
      list.scrollTop = where * (list.scrollHeight - list.clientHeight);
    },
    [pane, part],
  );
  // Two frames: the event of the scrolling, and what it draws.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await until('rows with text', async () => {
    const shown = await rows(page, pane);
    return shown.length > 0 && shown.every(({ text }) => text.trim() !== '');
  });
}

/** Every number that a chart's list of values shows, by name of the chart. */
export function chart_value(page, name) {
  return page.locator(`figure[aria-label="Chart of ${name}"] .chart-values dd`).first().textContent();
}

/** The page is wider than its window: a person on a phone must scroll sideways. */
export function overflows(page) {
  return page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1);
}
