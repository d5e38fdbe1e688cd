import { expect, test } from 'vitest';
import { compare_weights, differences } from '../src/compare/differences';

test('fields that differ, hyperparameters first', () => {
  const rows = differences([
    { name: 'a', hyperparameters: { lr: 0.1, layers: [1, 2] }, tags: {} },
    { name: 'b', hyperparameters: { lr: 0.2, layers: [1, 2] }, queue: 'x' },
  ]);
  expect(rows).toEqual([
    { name: 'hyperparameters.layers', values: ['[1,2]', '[1,2]'], same: true },
    { name: 'hyperparameters.lr', values: ['0.1', '0.2'], same: false },
    { name: 'name', values: ['a', 'b'], same: false },
    { name: 'queue', values: [null, 'x'], same: false },
  ]);
});

test('deep and wide descriptions are bounded', () => {
  let deep: unknown = 1;
  for (let i = 0; i < 1000; ++i) deep = { a: deep };
  expect(differences([deep]).length).toBe(1);
  const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i]));
  expect(differences([wide]).length).toBeLessThanOrEqual(2000);
});

test('weights are equal only where all are known and the same', () => {
  expect(compare_weights(['ab', 'ab', 'ab'])).toBe('same');
  expect(compare_weights(['ab', 'ac'])).toBe('different');
  expect(compare_weights(['ab', null])).toBe('unknown');
  expect(compare_weights(['ab'])).toBe('unknown');
});
