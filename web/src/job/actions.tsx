// What can be done with a job. Each action asks first and says what happened.
import { job_path, post, remove } from '../api/client';
import type { JobDetail } from '../api/types';
import { plural } from '../format';
import { job_address, navigate } from '../router';
import { ask, show_dialog } from '../ui/dialog';
import { tell, tell_error } from '../ui/toast';
import { CloneForm } from './clone_form';
import { ScaleForm } from './scale_form';

async function attempt(action: () => Promise<void>): Promise<boolean> {
  try {
    await action();
    return true;
  } catch (error) {
    tell_error(error);
    return false;
  }
}

export async function stop_job(job: JobDetail): Promise<boolean> {
  const text =
    job.state === 'queued'
      ? 'It leaves the queue. It can be resumed later.'
      : 'Its tasks get TERM and their grace for a checkpoint, then KILL. It can be resumed later.';
  if (!(await ask(`Stop ${job.name}?`, text, 'Stop the job', true))) return false;
  return attempt(async () => {
    await post(job_path(job.id, 'stop'));
    tell(`${job.name} is stopping.`);
  });
}

export async function resume_job(job: JobDetail): Promise<boolean> {
  if (!(await ask(`Resume ${job.name}?`, 'It is queued again and goes on from its newest checkpoint.', 'Resume'))) return false;
  return attempt(async () => {
    await post(job_path(job.id, 'resume'));
    tell(`${job.name} is queued again.`);
  });
}

export async function scale_job(job: JobDetail): Promise<boolean> {
  const workers = await show_dialog<number>(`Scale ${job.name}`, (close) => <ScaleForm job={job} close={close} />);
  if (workers === null) return false;
  return attempt(async () => {
    await post(job_path(job.id, 'scale'), { workers });
    tell(`${job.name} is asked to run with ${plural(workers, 'worker')}.`);
  });
}

export async function clone_job(job: JobDetail): Promise<void> {
  const submitted = await show_dialog<{ id: string; name: string }>(
    `Clone ${job.name}`,
    (close) => <CloneForm spec={job.spec} close={close} />,
    { wide: true },
  );
  if (submitted === null) return;
  tell(`Submitted ${submitted.name} (${submitted.id}).`);
  navigate(job_address(submitted.id));
}

export async function pin_job(job: JobDetail): Promise<boolean> {
  const text = job.pinned ? 'Retention may remove it again.' : 'Retention keeps it, whatever its age.';
  const verb = job.pinned ? 'Unpin' : 'Pin';
  if (!(await ask(`${verb} ${job.name}?`, text, verb))) return false;
  return attempt(async () => {
    await post(job_path(job.id, 'pin'), { pinned: !job.pinned });
    tell(job.pinned ? `${job.name} is no longer pinned.` : `${job.name} is pinned.`);
  });
}

export async function delete_job(job: JobDetail): Promise<void> {
  const text = 'Its model, output, logs and metrics are removed. This cannot be undone.';
  if (!(await ask(`Delete ${job.name}?`, text, 'Delete for good', true))) return;
  const deleted = await attempt(async () => {
    await remove(job_path(job.id));
    tell(`${job.name} is deleted.`);
  });
  if (deleted) navigate('/');
}

export async function download_job(job: JobDetail): Promise<void> {
  const part = await show_dialog<string>(`Download ${job.name}`, (close) => (
    <div class="choices">
      <button type="button" class="button" autofocus onClick={() => close('model')}>
        Model
      </button>
      <button type="button" class="button" onClick={() => close('output')}>
        Output
      </button>
      <button type="button" class="button" onClick={() => close('all')}>
        Everything, with logs
      </button>
      <button type="button" class="button quiet" onClick={() => close(null)}>
        Cancel
      </button>
    </div>
  ));
  if (part === null) return;
  const link = document.createElement('a');
  link.href = `${job_path(job.id, 'archive')}?part=${part}`;
  link.download = `${job.id}-${part}.tar`;
  link.click();
  tell(`Downloading ${link.download}.`);
}
