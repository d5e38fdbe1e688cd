// What a job's state and description allow.
import { has_ended, type JobDetail, type JobSpec } from '../api/types';

/** The workers an elastic job may have, or null where it is not elastic. */
export function elastic_range(spec: JobSpec): { least: number; most: number } | null {
  const value = spec['elastic'];
  if (typeof value !== 'object' || value === null) return null;
  const { min, max } = value as { min?: unknown; max?: unknown };
  return typeof min === 'number' && typeof max === 'number' ? { least: min, most: max } : null;
}

export interface AllowedActions {
  stop: boolean;
  resume: boolean;
  scale: boolean;
  clone: boolean;
  remove: boolean;
}

/** A run of `cohort run` that the service only shows (engine "attached") was not submitted, so that it cannot be again. */
export function allowed_actions(job: Pick<JobDetail, 'state' | 'spec' | 'engine'>): AllowedActions {
  const submitted = job.engine !== 'attached';
  return {
    stop: !has_ended(job.state) && job.state !== 'stopping',
    resume: submitted && (job.state === 'failed' || job.state === 'stopped'),
    scale: job.state === 'running' && elastic_range(job.spec) !== null,
    clone: submitted,
    remove: has_ended(job.state),
  };
}
