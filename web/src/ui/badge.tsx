import type { ComponentChildren } from 'preact';

/** What a state means at a glance: the colour and the shape of its mark; the word is always there, too. */
const kTone: Record<string, string> = {
  queued: 'wait',
  starting: 'go',
  running: 'go',
  stopping: 'warn',
  succeeded: 'good',
  failed: 'bad',
  lost: 'bad',
  stopped: 'off',
  exited: 'off',
};

export function tone_of(state: string): string {
  return kTone[state] ?? 'wait';
}

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge tone-${tone_of(state)}`}>{state}</span>;
}

export function Tag({ children, title }: { children: ComponentChildren; title?: string }) {
  return (
    <span class="tag" title={title}>
      {children}
    </span>
  );
}
