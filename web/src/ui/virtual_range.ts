export interface VirtualRange {
  first: number;
  /** One behind the last. */
  end: number;
}

/** Rows of `count` that a viewport shows, with `margin` rows more on either side. */
export function virtual_range(scroll_top: number, viewport: number, row_height: number, count: number, margin = 8): VirtualRange {
  const first = Math.min(count, Math.max(0, Math.floor(scroll_top / row_height) - margin));
  const end = Math.min(count, Math.max(first, Math.ceil((scroll_top + viewport) / row_height) + margin));
  return { first, end };
}

/** The scroll position that brings row `index` into the viewport; the old one when it is there already. */
export function scroll_to_row(index: number, scroll_top: number, viewport: number, row_height: number, head = 0): number {
  const top = index * row_height;
  if (top < scroll_top) return top;
  if (top + row_height > scroll_top + viewport - head) return top + row_height - viewport + head;
  return scroll_top;
}
