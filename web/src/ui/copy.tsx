import { useState } from 'preact/hooks';
import { Button } from './button';
import { tell } from './toast';

/** Copies by the clipboard API, or by a selection where the page is not served from a secure origin. */
async function copy_text(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'off-screen';
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [copied, set_copied] = useState(false);
  const on_click = async (): Promise<void> => {
    if (!(await copy_text(text))) {
      tell('The browser did not allow the copy: mark the text and copy it by hand.', 'error');
      return;
    }
    set_copied(true);
    setTimeout(() => set_copied(false), 1500);
  };
  return (
    <Button kind="quiet" aria-label={label} onClick={() => void on_click()}>
      {copied ? 'Copied' : 'Copy'}
    </Button>
  );
}

/** Text to be copied: a command, a file. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div class="copy-block">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} label={`Copy: ${label}`} />
    </div>
  );
}
