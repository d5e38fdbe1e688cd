// Names for the schemas of the OpenAPI document (schema.d.ts is generated from it).
import type { components } from './schema';

type Schemas = components['schemas'];

export type JobState = Schemas['JobState'];
export type Attempt = Schemas['Attempt'];
export type JobEvent = Schemas['Event'];
export type Metric = Schemas['Metric'];
export type StoredFile = Schemas['File'];
export type Service = Schemas['Service'];
export type LogPiece = Schemas['LogPiece'];

/** pid and what follows come with usage=1. */
export type Task = Schemas['Task'] & {
  pid?: number | null;
  started?: string | null;
  ended?: string | null;
  cpu_seconds?: number | null;
  memory?: number | null;
  step?: number | null;
};

/** A row of the list, as latest=1 gives it. */
export type Job = Schemas['ListedJob'];
export type JobPage = Schemas['JobPage'];
export type Series = Schemas['Series'];
export type Cluster = Schemas['Cluster'];

/** A description has fields of its own choice; the generator knows no better word for that than "none". */
export type JobSpec = Record<string, unknown>;
export type JobDetail = Omit<Schemas['JobDetail'], 'tasks' | 'spec' | 'resolved'> & {
  spec: JobSpec;
  resolved: JobSpec;
  tasks: Task[];
};

export interface Failure {
  task: string;
  host: string;
  how: string;
  summary: string;
  lines: string[];
  collateral: string[];
  memory: string;
  advice: string;
  log: { task: string; attempt: number } | null;
}

export interface TimelineEntry {
  time: string;
  kind: string;
  task: string;
  text: string;
}

const kEnded: readonly JobState[] = ['succeeded', 'failed', 'stopped'];

export function has_ended(state: JobState): boolean {
  return kEnded.includes(state);
}
