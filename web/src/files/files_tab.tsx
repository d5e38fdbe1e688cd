import { useMemo } from 'preact/hooks';
import { get_json, job_path, sentence_of } from '../api/client';
import { has_ended, type JobDetail, type StoredFile } from '../api/types';
import { format_bytes, format_time, plural } from '../format';
import { set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import { usePolled } from '../ui/use_polled';
import { Preview } from './preview';

const kEveryMs = 5000;

/** Files by the folder of the run store that holds them, in the order of interest. */
function groups_of(files: readonly StoredFile[]): [string, StoredFile[]][] {
  return ['model', 'output', 'logs']
    .map((folder): [string, StoredFile[]] => [folder, files.filter((file) => file.path.startsWith(`${folder}/`))])
    .filter(([, group]) => group.length > 0);
}

interface GroupProps {
  job: JobDetail;
  folder: string;
  files: readonly StoredFile[];
  open: string;
}

function Group({ job, folder, files, open }: GroupProps) {
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  return (
    <section class="panel stack" aria-label={`Files of ${folder}`}>
      <div class="section-head">
        <h2>{folder}</h2>
        <span class="quiet-text number">
          {plural(files.length, 'file')}, {format_bytes(total)}
        </span>
      </div>
      <table class="plain-table files">
        <thead class="off-screen">
          <tr>
            <th>File</th>
            <th class="number">Size</th>
            <th>Changed</th>
            <th>Download</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.path} class={file.path === open ? 'open' : ''}>
              <td>
                <button
                  type="button"
                  class="file-name mono"
                  aria-expanded={file.path === open}
                  onClick={() => set_query({ file: file.path === open ? null : file.path })}
                >
                  {file.path.slice(folder.length + 1)}
                </button>
              </td>
              <td class="number">{format_bytes(file.bytes)}</td>
              <td class="file-time quiet-text number">{format_time(file.modified)}</td>
              <td class="number">
                <a href={job_path(job.id, 'files', file.path)} download={file.path.split('/').at(-1)} aria-label={`Download ${file.path}`}>
                  Download
                </a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function FilesTab({ job }: { job: JobDetail }) {
  const { query } = useAddress();
  const open = query.get('file') ?? '';
  const every = has_ended(job.state) ? 0 : kEveryMs;
  const { value, error } = usePolled(`${job.id} ${job.state}`, every, (signal) =>
    get_json<{ files: StoredFile[] }>(job_path(job.id, 'files'), {}, signal),
  );
  const groups = useMemo(() => groups_of(value?.files ?? []), [value]);
  if (!value) return error ? <EmptyState title={sentence_of(error)} /> : <Loading what="files" />;
  if (groups.length === 0) return <EmptyState title="No files yet: what the job writes into its model and output folders shows up here." />;
  const file = value.files.find((each) => each.path === open);
  return (
    <div class={file ? 'files-page with-preview' : 'files-page'}>
      <div class="stack">
        {groups.map(([folder, files]) => (
          <Group key={folder} job={job} folder={folder} files={files} open={open} />
        ))}
      </div>
      {file && (
        <section class="panel preview stack" aria-label={`Preview of ${file.path}`}>
          <div class="section-head">
            <h2 class="mono">{file.path}</h2>
            <Button kind="quiet" onClick={() => set_query({ file: null })}>
              Close
            </Button>
          </div>
          <Preview url={job_path(job.id, 'files', file.path)} file={file} />
        </section>
      )}
    </div>
  );
}
