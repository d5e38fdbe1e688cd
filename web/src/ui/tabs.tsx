import { Link } from './link';

export interface TabItem {
  id: string;
  label: string;
  href: string;
}

/** Tabs are addresses: the current one is marked for the eye and for the screen reader. */
export function Tabs({ items, current, label }: { items: readonly TabItem[]; current: string; label: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {items.map((item) => (
        <Link key={item.id} href={item.href} aria-current={item.id === current ? 'page' : undefined}>
          {item.label}
        </Link>
      ))}
    </nav>
  );
}
