// Names for the schemas of the OpenAPI document (schema.d.ts is generated from it).
import type { components } from './schema';

type Schemas = components['schemas'];

export type JobState = Schemas['JobState'];
export type Attempt = Schemas['Attempt'];
/** pid and what follows come with usage=1. */
export type Task = Schemas['Task'];
export type Failure = Schemas['Failure'];
export type TimelineEntry = Schemas['Timeline']['entries'][number];
export type JobEvent = Schemas['Event'];
export type Metric = Schemas['Metric'];
export type StoredFile = Schemas['File'];
export type Service = Schemas['Service'];
export type LogPiece = Schemas['LogPiece'];

/** A row of the list, as latest=1 gives it. */
export type Job = Schemas['ListedJob'];
export type JobPage = Schemas['JobPage'];
export type Series = Schemas['Series'];
export type Cluster = Schemas['Cluster'];

/** A description has fields of its own choice; the generator knows no better word for that than "none". */
export type JobSpec = Record<string, unknown>;
export type JobDetail = Omit<Schemas['JobDetail'], 'spec' | 'resolved'> & {
  spec: JobSpec;
  resolved: JobSpec;
};

const kEnded: readonly JobState[] = ['succeeded', 'failed', 'stopped'];

export function has_ended(state: JobState): boolean {
  return kEnded.includes(state);
}
