// What is different between the descriptions of runs.

export interface Difference {
  name: string; // "hyperparameters.learning_rate"
  values: (string | null)[]; // one a run; null: it is not there
  same: boolean;
}

const kMostDepth = 8;
const kMostRows = 2000;

export function differences(descriptions: readonly unknown[]): Difference[] {
  const flat = descriptions.map((description) => {
    const values = new Map<string, string>();
    flatten(description, '', 0, values);
    return values;
  });
  const names = [...new Set(flat.flatMap((values) => [...values.keys()]))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true }));
  return names.map((name) => {
    const values = flat.map((one) => one.get(name) ?? null);
    return { name, values, same: values.every((value) => value === values[0]) };
  });
}

// Hyperparameters are what people look for.
function rank(name: string): number {
  return name.startsWith('hyperparameters') ? 0 : 1;
}

function flatten(value: unknown, name: string, depth: number, into: Map<string, string>): void {
  if (into.size >= kMostRows) return;
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && depth < kMostDepth) {
    for (const [key, inner] of Object.entries(value)) flatten(inner, name === '' ? key : `${name}.${key}`, depth + 1, into);
    return;
  }
  if (name !== '' && value !== undefined) into.set(name, typeof value === 'string' ? value : JSON.stringify(value));
}

export type Weights = 'same' | 'different' | 'unknown';

// Whether runs ended with the same bits.
export function compare_weights(fingerprints: readonly (string | null | undefined)[]): Weights {
  if (fingerprints.length < 2 || fingerprints.some((one) => !one)) return 'unknown';
  return fingerprints.every((one) => one === fingerprints[0]) ? 'same' : 'different';
}
