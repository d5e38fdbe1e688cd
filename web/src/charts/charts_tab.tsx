import type { JobDetail } from '../api/types';
import { EmptyState } from '../ui/empty_state';

export function ChartsTab({ job }: { job: JobDetail }) {
  return <EmptyState title={`The charts of ${job.name}`} />;
}
