import { ComparePage } from './compare/compare_page';
import { JobPage } from './job/job_page';
import { parse_route, useAddress } from './router';
import { DialogHost } from './ui/dialog';
import { EmptyState } from './ui/empty_state';
import { ToastHost } from './ui/toast';

function Page() {
  const { path, query } = useAddress();
  const route = parse_route(path);
  switch (route.page) {
    case 'job':
      return <JobPage key={route.job} id={route.job} tab={route.tab} />;
    case 'compare':
      return <ComparePage jobs={query.getAll('job')} />;
    default:
      return <EmptyState title="There is no such page." />;
  }
}

export function App() {
  return (
    <>
      <Page />
      <DialogHost />
      <ToastHost />
    </>
  );
}
