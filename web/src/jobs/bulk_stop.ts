import { job_path, post, sentence_of } from '../api/client';
import { has_ended, type Job } from '../api/types';
import { plural } from '../format';
import { ask } from '../ui/dialog';
import { tell } from '../ui/toast';

const kAtOnce = 4;

/** Stops those of `jobs` that have not ended, after a question; says how it went. True when any was asked to stop. */
export async function stop_jobs(jobs: readonly Job[]): Promise<boolean> {
  const active = jobs.filter((job) => !has_ended(job.state));
  if (active.length === 0) {
    tell(`Nothing to stop: ${jobs.length === 1 ? 'the job has' : 'all of these have'} ended.`);
    return false;
  }
  const names = active.slice(0, 5).map((job) => job.name).join(', ');
  const more = active.length > 5 ? ` and ${active.length - 5} more` : '';
  const question = `${names}${more}. Each gets time for a checkpoint and can be resumed.`;
  if (!(await ask(`Stop ${plural(active.length, 'job')}?`, question, 'Stop', true))) return false;

  const failures: string[] = [];
  const rest = [...active];
  const worker = async (): Promise<void> => {
    for (let job = rest.shift(); job; job = rest.shift()) {
      try {
        await post(job_path(job.id, 'stop'));
      } catch (error) {
        failures.push(`${job.name}: ${sentence_of(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: kAtOnce }, worker));
  const stopped = active.length - failures.length;
  if (stopped > 0) tell(`Stopping ${plural(stopped, 'job')}.`);
  if (failures.length > 0) tell(`${plural(failures.length, 'job')} not stopped: ${failures[0]}`, 'error');
  return true;
}
