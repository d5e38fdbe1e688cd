import { useState } from 'preact/hooks';
import { post, sentence_of } from '../api/client';
import type { Job, JobSpec } from '../api/types';
import { Button } from '../ui/button';
import { DialogButtons } from '../ui/dialog';

interface CloneFormProps {
  spec: JobSpec;
  close: (submitted: { id: string; name: string } | null) => void;
}

function parsed(text: string): JobSpec | string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JobSpec;
    return 'A job description is an object: { "name": ... }.';
  } catch (error) {
    return `Not JSON: ${(error as Error).message}.`;
  }
}

/** A job's description as text, to be changed, checked by the service and submitted. */
export function CloneForm({ spec, close }: CloneFormProps) {
  const [text, set_text] = useState(JSON.stringify(spec, null, 2));
  const [problem, set_problem] = useState('');
  const [notes, set_notes] = useState<string[]>([]);
  const [busy, set_busy] = useState(false);

  const run = async (action: (edited: JobSpec) => Promise<void>): Promise<void> => {
    const edited = parsed(text);
    set_notes([]);
    if (typeof edited === 'string') {
      set_problem(edited);
      return;
    }
    set_problem('');
    set_busy(true);
    try {
      await action(edited);
    } catch (error) {
      set_problem(sentence_of(error));
    } finally {
      set_busy(false);
    }
  };
  const check = (): Promise<void> =>
    run(async (edited) => {
      const answer = await post<{ notes: string[] }>('/v1/jobs/check', { spec: edited });
      set_notes(['The service would accept this job.', ...answer.notes]);
    });
  const submit = (): Promise<void> =>
    run(async (edited) => {
      const job = await post<Job>('/v1/jobs', { spec: edited, request_id: crypto.randomUUID?.() ?? String(Math.random()) });
      close({ id: job.id, name: job.name });
    });

  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <label class="labelled">
        <span>Job description</span>
        <textarea
          class="field"
          rows={16}
          spellcheck={false}
          autofocus
          value={text}
          aria-describedby="clone-problem"
          onInput={(event) => set_text(event.currentTarget.value)}
        />
      </label>
      <div id="clone-problem" role="status">
        {problem && <p class="problem">{problem}</p>}
        {notes.map((note) => (
          <p key={note} class="quiet-text">
            {note}
          </p>
        ))}
      </div>
      <DialogButtons>
        <Button onClick={() => close(null)}>Cancel</Button>
        <Button onClick={() => void check()} disabled={busy}>
          Check
        </Button>
        <Button kind="primary" type="submit" disabled={busy}>
          Submit a new job
        </Button>
      </DialogButtons>
    </form>
  );
}
