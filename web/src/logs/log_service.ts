// Logs as the service gives them.
import { get_json, job_path, request, with_query } from '../api/client';
import type { StoredFile } from '../api/types';
import type { LogIndex, LogSource } from './log_file';
import type { MatchPage, Place, Query } from './search';

export class ServedLog implements LogSource {
  constructor(
    private readonly job: string,
    private readonly task: string,
    private readonly attempt: number,
  ) {}

  index(from: number, line: number, signal: AbortSignal): Promise<LogIndex> {
    return get_json<LogIndex>(job_path(this.job, 'logs', 'index'), { ...this.which(), from, line }, signal);
  }

  async read(offset: number, limit: number, signal: AbortSignal): Promise<Uint8Array> {
    const path = with_query(job_path(this.job, 'logs'), { ...this.which(), offset, limit });
    const response = await request(path, { signal });
    return new Uint8Array(await response.arrayBuffer());
  }

  search(query: Query, from: Place, signal: AbortSignal): Promise<MatchPage> {
    const { text, regex, case: matches_case } = query;
    const asked = { q: text, regex, case: matches_case, from: from.offset, line: from.line, limit: 200 };
    return get_json<MatchPage>(job_path(this.job, 'logs', 'search'), { ...this.which(), ...asked }, signal);
  }

  // The byte that was written first at `time` or behind it.
  async offset_at(time: Date): Promise<number> {
    const path = with_query(job_path(this.job, 'logs'), { ...this.which(), since: time.toISOString(), limit: 1 });
    const response = await request(path);
    const read = (await response.arrayBuffer()).byteLength;
    return Math.max(0, Number(response.headers.get('Cohort-Next-Offset') ?? 0) - read);
  }

  // The log as files: one, or one for each time that the task was started again.
  async files(): Promise<{ address: string; name: string; bytes: number }[]> {
    const { files } = await get_json<{ files: StoredFile[] }>(job_path(this.job, 'files'));
    const stem = this.task.replace(':', '-');
    return files.flatMap(({ path, bytes }) => {
      const name = path.replace(/^.*\//, '');
      const is_own = path.startsWith(`logs/${this.attempt}/`) && (name.startsWith(`${stem}.`) || name === stem);
      return is_own ? [{ address: job_path(this.job, 'files', path), name, bytes }] : [];
    });
  }

  private which(): { task: string; attempt: number } {
    return { task: this.task, attempt: this.attempt };
  }
}
