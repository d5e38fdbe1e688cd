import type { ComponentChildren } from 'preact';

/** Lets a wide table scroll on a narrow screen, by keyboard, too. */
export function TableBox({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    <div class="table-box" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
