import type { JobDetail } from '../api/types';
import { EmptyState } from '../ui/empty_state';

export function TimelineTab({ job }: { job: JobDetail }) {
  return <EmptyState title={`The timeline of ${job.name}`} />;
}
