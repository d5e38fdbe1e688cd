import type { JobDetail } from '../api/types';
import { EmptyState } from '../ui/empty_state';

export function LogsTab({ job }: { job: JobDetail }) {
  return <EmptyState title={`The logs of ${job.name}`} />;
}
