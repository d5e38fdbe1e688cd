import type { ComponentChildren } from 'preact';

interface EmptyStateProps {
  title: string;
  /** It is all that the page has: its title is the page's. */
  whole_page?: boolean;
  children?: ComponentChildren;
}

export function EmptyState({ title, whole_page = false, children }: EmptyStateProps) {
  return (
    <div class="empty">
      {whole_page ? <h1 class="empty-title">{title}</h1> : <p class="empty-title">{title}</p>}
      {children}
    </div>
  );
}

/** While something is on its way: said only after a moment, so that quick answers do not flicker. */
export function Loading({ what }: { what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what} …
    </p>
  );
}
