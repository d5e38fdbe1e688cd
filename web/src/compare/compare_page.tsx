import { EmptyState } from '../ui/empty_state';

export function ComparePage({ jobs }: { jobs: readonly string[] }) {
  return <EmptyState title={`Comparing ${jobs.length} jobs`} />;
}
