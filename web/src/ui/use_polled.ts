import { useEffect, useRef, useState } from 'preact/hooks';

export interface Polled<T> {
  value: T | null;
  error: unknown;
  refresh: () => void;
}

/**
 * Reads with `read` now, again every `every_ms` while the page is visible (0: never), and again when `key` changes. An
 * error keeps the last value and does not end the polling.
 */
export function usePolled<T>(key: string, every_ms: number, read: (signal: AbortSignal) => Promise<T>): Polled<T> {
  const [state, set_state] = useState<{ value: T | null; error: unknown }>({ value: null, error: null });
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const run = async (): Promise<void> => {
      clearTimeout(timer);
      try {
        if (!document.hidden) {
          const value = await read(stop.signal);
          if (!stop.signal.aborted) set_state({ value, error: null });
        }
      } catch (error) {
        if (!stop.signal.aborted) set_state((old) => ({ value: old.value, error }));
      }
      if (!stop.signal.aborted && (every_ms > 0 || document.hidden)) {
        timer = window.setTimeout(() => void run(), every_ms || 2000);
      }
    };
    again.current = () => void run();
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, every_ms]);
  return { ...state, refresh: () => again.current() };
}
