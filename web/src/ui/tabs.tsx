import { useEffect, useRef } from 'preact/hooks';
import { Link } from './link';

export interface TabItem {
  id: string;
  label: string;
  href: string;
}

/** Tabs are addresses: the current one is marked for the eye and for the screen reader. */
export function Tabs({ items, current, label }: { items: readonly TabItem[]; current: string; label: string }) {
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    bar.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
  }, [current]);
  return (
    <nav class="tabs" ref={bar} aria-label={label}>
      {items.map((item) => (
        <Link key={item.id} href={item.href} aria-current={item.id === current ? 'page' : undefined}>
          {item.label}
        </Link>
      ))}
    </nav>
  );
}
