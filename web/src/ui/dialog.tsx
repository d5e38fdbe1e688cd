// Dialogs ask before anything happens. One is open at a time; Esc and the button beside it mean no.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Store, useStore } from '../api/store';
import { Button } from './button';

interface OpenDialog {
  title: string;
  body: (close: (value: unknown) => void) => ComponentChildren;
  wide: boolean;
  resolve: (value: unknown) => void;
}

const open_dialog = new Store<OpenDialog | null>(null);

/** Shows `body` in a dialog; gives what it closes with, or null when the person cancels. */
export function show_dialog<T>(
  title: string,
  body: (close: (value: T | null) => void) => ComponentChildren,
  options: { wide?: boolean } = {},
): Promise<T | null> {
  open_dialog.value?.resolve(null);
  return new Promise((resolve) => {
    open_dialog.set({
      title,
      body: body as OpenDialog['body'],
      wide: options.wide ?? false,
      resolve: (value) => {
        open_dialog.set(null);
        resolve(value as T | null);
      },
    });
  });
}

/** Asks one question; true when the person says `confirm`. */
export async function ask(title: string, text: ComponentChildren, confirm: string, danger = false): Promise<boolean> {
  const answer = await show_dialog<boolean>(title, (close) => (
    <>
      <div class="dialog-text">{text}</div>
      <DialogButtons>
        <Button onClick={() => close(null)}>Cancel</Button>
        <Button kind={danger ? 'danger' : 'primary'} onClick={() => close(true)} autofocus>
          {confirm}
        </Button>
      </DialogButtons>
    </>
  ));
  return answer === true;
}

export function DialogButtons({ children }: { children: ComponentChildren }) {
  return <div class="dialog-buttons">{children}</div>;
}

export function DialogHost() {
  const dialog = useStore(open_dialog);
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (dialog && !element.current?.open) element.current?.showModal();
    const first = element.current?.querySelector<HTMLElement>('[autofocus]');
    first?.focus();
    if (first instanceof HTMLTextAreaElement) {
      first.setSelectionRange(0, 0);
      first.scrollTop = 0;
    }
  }, [dialog]);
  if (!dialog) return null;
  return (
    <dialog
      ref={element}
      class={dialog.wide ? 'dialog wide' : 'dialog'}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        dialog.resolve(null);
      }}
    >
      <div class="dialog-inside">
        <h2 id="dialog-title">{dialog.title}</h2>
        {dialog.body(dialog.resolve)}
      </div>
    </dialog>
  );
}
