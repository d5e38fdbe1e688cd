// Keys for everything. Handlers of the page on the screen come before the shell's; keys typed into a field are text.
import { useEffect, useRef } from 'preact/hooks';

/** "j", "Enter", "g c" (one after the other) -> what to do. */
export type KeyMap = Record<string, () => void>;

const kSequenceMs = 900;

/** Joins keys that are typed one after the other: after "g", "c" is "g c" for a moment. */
export class KeySequence {
  private first = '';
  private until = 0;

  /** Names to look up, the longest first. */
  names(key: string, now: number): string[] {
    const joined = this.first !== '' && now < this.until ? [`${this.first} ${key}`, key] : [key];
    this.first = key;
    this.until = now + kSequenceMs;
    return joined;
  }
}

const maps: { current: KeyMap }[] = [];
const sequence = new KeySequence();

function is_typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'range', 'button'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

function on_key(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector('dialog[open]')) return;
  if (is_typing(event.target)) {
    if (event.key === 'Escape') (event.target as HTMLElement).blur();
    return;
  }
  // Enter and Space on a link or a button are that control's own.
  if ((event.key === 'Enter' || event.key === ' ') && (event.target as HTMLElement).closest('a, button, summary, input')) return;
  for (const name of sequence.names(event.key, event.timeStamp)) {
    for (const map of [...maps].reverse()) {
      const action = map.current[name];
      if (!action) continue;
      event.preventDefault();
      action();
      return;
    }
  }
}

if (typeof window !== 'undefined') addEventListener('keydown', on_key);

export function useKeys(map: KeyMap): void {
  const holder = useRef(map);
  holder.current = map;
  useEffect(() => {
    maps.push(holder);
    return () => {
      maps.splice(maps.indexOf(holder), 1);
    };
  }, []);
}
