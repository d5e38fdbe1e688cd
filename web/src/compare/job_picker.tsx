// Chooses a job out of all, by a dialog.
import { useEffect, useState } from 'preact/hooks';
import { get_json, sentence_of } from '../api/client';
import type { Job, JobPage } from '../api/types';
import { format_time } from '../format';
import { show_dialog } from '../ui/dialog';

const kShown = 20;
const kTypingMs = 200;

/** The id of a job that is not among `except`; null when the person cancels. */
export function pick_job(except: readonly string[]): Promise<string | null> {
  return show_dialog<string>('Compare with', (close) => <Picker except={except} on_pick={close} />);
}

function Picker({ except, on_pick }: { except: readonly string[]; on_pick: (id: string) => void }) {
  const [text, set_text] = useState('');
  const [jobs, set_jobs] = useState<readonly Job[] | null>(null);
  const [failed, set_failed] = useState<unknown>(null);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(
      () =>
        get_json<JobPage>('/v1/jobs', { q: text, limit: kShown + except.length }, abort.signal).then(
          (page) => {
            set_jobs(page.jobs.filter((job) => !except.includes(job.id)).slice(0, kShown));
            set_failed(null);
          },
          (error) => abort.signal.aborted || set_failed(error),
        ),
      jobs === null ? 0 : kTypingMs,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return (
    <>
      <input class="field" type="search" autofocus aria-label="Jobs with this in name, id, user or tags" placeholder="Name, id, user or tag" value={text} onInput={(event) => set_text(event.currentTarget.value)} />
      {failed !== null ? <p role="alert">{sentence_of(failed)}</p> : null}
      <ul class="picker" aria-label="Jobs">
        {jobs?.map((job) => (
          <li key={job.id}>
            <button type="button" onClick={() => on_pick(job.id)}>
              <span class="picker-name">{job.name || job.id}</span>
              <span class="quiet-text">
                {job.state}, {job.user}, {format_time(job.submitted)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      {jobs?.length === 0 ? <p class="quiet-text">No other job.</p> : null}
    </>
  );
}
