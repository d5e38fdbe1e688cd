import { useState } from 'preact/hooks';
import type { JobDetail } from '../api/types';
import { plural } from '../format';
import { Button } from '../ui/button';
import { DialogButtons } from '../ui/dialog';
import { elastic_range } from './job_rules';

export function ScaleForm({ job, close }: { job: JobDetail; close: (workers: number | null) => void }) {
  const range = elastic_range(job.spec) ?? { least: 1, most: 1 };
  const [workers, set_workers] = useState(job.instances);
  const submit = (event: Event): void => {
    event.preventDefault();
    close(workers);
  };
  return (
    <form class="stack" onSubmit={submit}>
      <p class="dialog-text">
        It runs with {plural(job.instances, 'worker')} now. Training goes on while workers join or leave.
      </p>
      <label class="labelled">
        <span>
          Workers, {range.least} to {range.most}
        </span>
        <input
          class="field"
          type="number"
          autofocus
          required
          min={range.least}
          max={range.most}
          value={workers}
          onInput={(event) => set_workers(event.currentTarget.valueAsNumber)}
        />
      </label>
      <DialogButtons>
        <Button onClick={() => close(null)}>Cancel</Button>
        <Button kind="primary" type="submit">
          Scale
        </Button>
      </DialogButtons>
    </form>
  );
}
