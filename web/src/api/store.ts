// A value that components follow: the only kind of shared state in the page.
import { useEffect, useState } from 'preact/hooks';

export class Store<T> {
  private listeners = new Set<(value: T) => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  /** Calls `listener` at every change until the returned function is called. */
  watch(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, set_value] = useState(store.value);
  useEffect(() => {
    set_value(() => store.value); // It may have changed between the first rendering and now.
    return store.watch((next) => set_value(() => next));
  }, [store]);
  return value;
}
