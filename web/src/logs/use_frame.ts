import { useEffect, useReducer, useRef } from 'preact/hooks';

/** A function that draws the component again, at most once a frame however often it is called. */
export function useFrame(): () => void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const frame = useRef(0);
  const ask = useRef(() => {
    if (frame.current === 0)
      frame.current = requestAnimationFrame(() => {
        frame.current = 0;
        draw(0);
      });
  });
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  return ask.current;
}
