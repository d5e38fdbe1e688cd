import type { Cluster } from '../api/types';

/** For each core the index in `held` of the job that holds it, -1: free. Parts of a core count with their job. */
export function held_slots(cluster: Cluster): number[] {
  const slots = new Array<number>(Math.max(0, Math.ceil(cluster.total.cores))).fill(-1);
  let at = 0;
  cluster.held.forEach((row, index) => {
    const end = Math.min(slots.length, at + Math.ceil(row.cores));
    slots.fill(index, at, end);
    at = end;
  });
  return slots;
}
