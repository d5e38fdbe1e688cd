// Names for the schemas of the OpenAPI document (schema.d.ts is generated from it).
import type { components } from './schema';

type Schemas = components['schemas'];

export type JobState = Schemas['JobState'];
export type Attempt = Schemas['Attempt'];
export type JobEvent = Schemas['Event'];
export type Metric = Schemas['Metric'];
export type StoredFile = Schemas['File'];
export type Service = Schemas['Service'] & { last_event?: number };
export type LogPiece = Schemas['LogPiece'];

/** The newest value of a job's main metric, with its recent course. */
export interface Latest {
  name: string;
  step: number;
  value: number | null;
  spark: (number | null)[];
}

/** pid and what follows come with usage=1. */
export type Task = Schemas['Task'] & {
  pid?: number | null;
  started?: string | null;
  ended?: string | null;
  cpu_seconds?: number | null;
  memory?: number | null;
  step?: number | null;
};

/** A row of the list; tasks and latest come with latest=1. */
export type Job = Schemas['Job'] & { tasks?: number; latest?: Latest | null };

export type JobSpec = Record<string, unknown>;

export type JobDetail = Omit<Schemas['JobDetail'], 'tasks' | 'spec'> & {
  spec: JobSpec;
  tasks: Task[];
  resolved?: JobSpec | null;
  toml?: string;
  command?: string;
  environment?: Record<string, string>;
  weights?: string | null;
};

export interface JobPage {
  jobs: Job[];
  next: string | null;
}

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

export interface ClusterSize {
  cores: number;
  memory: number;
  gpus: number;
}

export interface Cluster {
  total: ClusterSize;
  free: ClusterSize;
  /** job, name and user are null where the caller may not see the job. */
  held: { job: string | null; name: string | null; user: string | null; cores: number; memory: number; gpus: number; instances: number }[];
  waiting: { job: string | null; name: string | null; user: string | null; place: number | null; reason: string; since: string }[];
}

export interface TimelineEntry {
  time: string;
  kind: string;
  task: string;
  text: string;
}

export interface Series {
  name: string;
  count: number;
  last_id: number;
  step: number[];
  time: number[];
  value: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
}

const kEnded: readonly JobState[] = ['succeeded', 'failed', 'stopped'];

export function has_ended(state: JobState): boolean {
  return kEnded.includes(state);
}
