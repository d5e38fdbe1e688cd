// A table of any length: only the rows on the screen exist. Rows have one height (CSS --row-height).
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { scroll_to_row, virtual_range } from './virtual_range';

export interface Column<Row> {
  id: string;
  head: ComponentChildren;
  cell: (row: Row, index: number) => ComponentChildren;
  /** For aria-sort, where the table is sorted by this column. */
  sorted?: 'ascending' | 'descending' | undefined;
}

interface VirtualTableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  key_of: (row: Row) => string;
  row_class?: (row: Row) => string;
  /** The row that the keyboard is on; -1: none. */
  active?: number;
  on_end?: () => void;
}

export function VirtualTable<Row>({ label, rows, columns, key_of, row_class, active = -1, on_end }: VirtualTableProps<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const [view, set_view] = useState({ top: 0, height: 800, row: 44, head: 34 });

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => {
      const row = parseFloat(getComputedStyle(element).getPropertyValue('--row-height')) || 44;
      const head = element.querySelector<HTMLElement>('.vt-head')?.offsetHeight ?? 0;
      set_view({ top: element.scrollTop, height: element.clientHeight, row, head });
    };
    const on_scroll = (): void => set_view((old) => ({ ...old, top: element.scrollTop }));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', on_scroll, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', on_scroll);
    };
  }, []);

  useEffect(() => {
    const element = box.current;
    if (element && active >= 0) element.scrollTop = scroll_to_row(active, element.scrollTop, view.height, view.row, view.head);
  }, [active]);

  const { first, end } = virtual_range(view.top, view.height, view.row, rows.length);
  useEffect(() => {
    if (on_end && end >= rows.length) on_end();
  }, [end, rows.length]);

  return (
    <div class="vt" ref={box} role="table" aria-label={label} aria-rowcount={rows.length + 1} tabIndex={0}>
      <div class="vt-head" role="rowgroup">
        <div class="vt-row" role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <div key={column.id} class={`vt-cell c-${column.id}`} role="columnheader" aria-sort={column.sorted}>
              {column.head}
            </div>
          ))}
        </div>
      </div>
      <div class="vt-body" role="rowgroup" style={{ height: `${rows.length * view.row}px` }}>
        {rows.slice(first, end).map((row, offset) => {
          const index = first + offset;
          return (
            <div
              key={key_of(row)}
              class={`vt-row ${index === active ? 'active' : ''} ${row_class?.(row) ?? ''}`}
              role="row"
              aria-rowindex={index + 2}
              style={{ transform: `translateY(${index * view.row}px)` }}
            >
              {columns.map((column) => (
                <div key={column.id} class={`vt-cell c-${column.id}`} role="cell">
                  {column.cell(row, index)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}
