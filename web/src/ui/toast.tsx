// Says what happened. Errors stay until they are closed; the rest goes after a while.
import { sentence_of } from '../api/client';
import { Store, useStore } from '../api/store';

interface Message {
  id: number;
  text: string;
  kind: 'done' | 'error';
}

const kShownMs = 6000;
const kMost = 4;
const messages = new Store<readonly Message[]>([]);
let next_id = 1;

function drop(id: number): void {
  messages.set(messages.value.filter((message) => message.id !== id));
}

export function tell(text: string, kind: Message['kind'] = 'done'): void {
  const id = next_id++;
  messages.set([...messages.value.slice(1 - kMost), { id, text, kind }]);
  if (kind === 'done') setTimeout(() => drop(id), kShownMs);
}

export function tell_error(error: unknown): void {
  tell(sentence_of(error), 'error');
}

export function ToastHost() {
  const shown = useStore(messages);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((message) => (
        <div key={message.id} class={`toast ${message.kind}`}>
          <span>{message.text}</span>
          <button type="button" class="toast-close" aria-label="Close this message" onClick={() => drop(message.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
