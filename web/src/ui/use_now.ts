import { useEffect, useState } from 'preact/hooks';

/** The time, told again every `every_ms`, so that ages on the screen are true. */
export function useNow(every_ms = 1000): number {
  const [now, set_now] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set_now(Date.now()), every_ms);
    return () => clearInterval(timer);
  }, [every_ms]);
  return now;
}
