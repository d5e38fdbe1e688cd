import { expect, it } from 'vitest';
import { held_slots } from '../src/cluster/held_slots';

it('gives every core to the job that holds it', () => {
  const row = { job: 'a', name: 'a', user: 'u', memory: 0, gpus: 0, instances: 1 };
  const size = { cores: 5, memory: 0, gpus: 0 };
  const held = [
    { ...row, cores: 2 },
    { ...row, cores: 0.5 },
  ];
  expect(held_slots({ total: size, free: size, held, waiting: [] })).toEqual([0, 0, 1, -1, -1]);
  expect(held_slots({ total: { ...size, cores: 1 }, free: size, held, waiting: [] })).toEqual([0]);
});
