// Rows of one height, any number of them: only those in view are in the document.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef } from 'preact/hooks';
import { ScrollMap } from './scroll_map';

export const kRowHeight = 18;
const kSettleMs = 150;
const kInputMs = 1000;

export interface Target {
  row: number;
  serial: number; // a new one: go there again
}

interface LogListProps {
  label: string;
  rows: number;
  row: (number: number) => ComponentChildren;
  want?: (first: number, last: number) => void;
  following: boolean;
  on_following: (following: boolean) => void;
  target: Target | null;
  on_view?: (first: number, last: number) => void;
  /** Rows that were dropped at the top since the beginning. */
  shifted?: number;
}

export function LogList(props: LogListProps) {
  const { label, rows, row, want, following, on_following, target, on_view, shifted = 0 } = props;
  const box = useRef<HTMLDivElement>(null);
  const wide = useRef<HTMLDivElement>(null);
  const map = useRef<ScrollMap>(null as unknown as ScrollMap);
  map.current ??= new ScrollMap(kRowHeight);
  const view = useRef(0);
  const settle = useRef(0);
  const input = useRef(-Infinity); // when a person last moved the list
  const went = useRef(-1);
  const moved = useRef(shifted);
  const [, draw] = useReducer((count: number) => count + 1, 0);

  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(() => {
      view.current = element.clientHeight;
      draw(0);
    });
    observer.observe(element);
    view.current = element.clientHeight;
    draw(0);
    return () => observer.disconnect();
  }, []);
  useEffect(() => () => clearTimeout(settle.current), []);

  const at = map.current;
  at.resize(rows, view.current);
  if (shifted !== moved.current) {
    at.move_to(at.top - (shifted - moved.current) * kRowHeight);
    moved.current = shifted;
  }
  if (target && target.serial !== went.current && view.current > 0) {
    went.current = target.serial;
    at.to_row(target.row);
  } else if (following) at.to_end();
  const first = Math.min(at.first_row, Math.max(0, rows - 1));
  const last = Math.min(rows, first + at.rows_in_view) - 1;

  useLayoutEffect(() => {
    const element = box.current!;
    if (Math.abs(element.scrollTop - at.scroll_top) >= 1) element.scrollTop = at.scroll_top;
    // The widest row seen stays the width, so that the view does not jump sideways.
    const width = wide.current!.scrollWidth;
    if (width > element.clientWidth && width > (parseFloat(wide.current!.style.minWidth) || 0))
      wide.current!.style.minWidth = `${width}px`;
  });
  useEffect(() => {
    if (rows === 0) return;
    want?.(first, last);
    on_view?.(first, last);
  }, [first, last, rows]);

  const on_scroll = (): void => {
    const element = box.current;
    // Taken out of the document before the event came, or hidden, which moves it to its top.
    if (!element || view.current === 0) return;
    // A list that is followed leaves its end by a person's hand only, not because it was hidden for a while.
    const now = performance.now();
    if (following && now - input.current > kInputMs) {
      if (Math.abs(element.scrollTop - at.scroll_top) >= 1) element.scrollTop = at.scroll_top;
      return;
    }
    const before = at.top;
    if (at.scrolled(element.scrollTop)) element.scrollTop = at.scroll_top;
    if (at.top === before) return;
    input.current = now;
    clearTimeout(settle.current);
    settle.current = window.setTimeout(() => {
      if (at.settle()) element.scrollTop = at.scroll_top;
    }, kSettleMs);
    if (following && at.top < before && !at.at_end) on_following(false);
    else if (!following && at.top > before && at.at_end) on_following(true);
    draw(0);
  };

  const touched = (): void => {
    input.current = performance.now();
  };
  const shown = [];
  for (let number = first; number <= last; ++number) shown.push(row(number));
  return (
    <div
      ref={box}
      class="log-list"
      role="log"
      aria-live="off"
      aria-label={label}
      tabIndex={0}
      onScroll={on_scroll}
      onWheel={touched}
      onTouchMove={touched}
      onKeyDown={touched}
      onPointerDown={touched}
    >
      <div ref={wide} class="log-tall" style={{ height: `${Math.max(at.height, 1)}px` }}>
        <div class="log-window" style={{ height: `${Math.min(view.current, Math.max(at.height, 1))}px` }}>
          <div style={{ transform: `translateY(${-at.hidden}px)` }}>{shown}</div>
        </div>
      </div>
    </div>
  );
}
