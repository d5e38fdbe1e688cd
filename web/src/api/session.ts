// Who is signed in. A request that gets 401 waits here until the sign-in form was answered, then is sent again.
// The token itself goes to the service once and is not kept: from then on an http-only cookie speaks.
import { Store } from './store';

export const sign_in_needed = new Store(false);

let waiting: (() => void)[] = [];

export function wait_for_sign_in(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    sign_in_needed.set(true);
  });
}

export async function sign_in(token: string): Promise<string | null> {
  const response = await fetch('/v1/session', {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  if (response.status === 401 || response.status === 400) return 'The service does not know this token, or it has expired.';
  if (!response.ok) return `The service answered ${response.status}.`;
  signed_in();
  return null;
}

export function signed_in(): void {
  const go_on = waiting;
  waiting = [];
  sign_in_needed.set(false);
  for (const resolve of go_on) resolve();
}
