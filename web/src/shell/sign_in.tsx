import { useState } from 'preact/hooks';
import { sign_in } from '../api/session';
import { useAddress } from '../router';
import { Button } from '../ui/button';

const kOldLink = 'This link was used already, or is older than a minute. Run cohort open again for a new one.';

/** Shown when the service does not know who asks. What was on its way goes on afterwards. */
export function SignIn({ on_done }: { on_done?: () => void }) {
  const [token, set_token] = useState('');
  const { query } = useAddress();
  const [problem, set_problem] = useState(query.get('link') === 'invalid' ? kOldLink : '');
  const [busy, set_busy] = useState(false);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    set_busy(true);
    try {
      const refused = await sign_in(token.trim());
      set_problem(refused ?? '');
      if (refused === null) on_done?.();
    } catch {
      set_problem('The service does not answer. Is it running?');
    } finally {
      set_busy(false);
    }
  };

  return (
    <main>
      <form class="sign-in panel" onSubmit={(event) => void submit(event)}>
        <h1>Sign in</h1>
        <p class="quiet-text">
          Run <code>cohort open</code> where your token is and follow its link, or paste the token here. The browser keeps a session
          of 12 hours, not the token.
        </p>
        <label class="labelled">
          <span>Token</span>
          <input
            class="field"
            type="password"
            name="token"
            autocomplete="off"
            required
            autofocus
            value={token}
            aria-describedby="sign-in-problem"
            onInput={(event) => set_token(event.currentTarget.value)}
          />
        </label>
        <p id="sign-in-problem" class="problem" role="alert">
          {problem}
        </p>
        <Button kind="primary" type="submit" disabled={busy}>
          {busy ? 'Signing in …' : 'Sign in'}
        </Button>
      </form>
    </main>
  );
}
