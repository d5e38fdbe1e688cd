import { useEffect, useState } from 'preact/hooks';
import { get_json } from './api/client';
import { sign_in_needed } from './api/session';
import { useStore } from './api/store';
import type { Service } from './api/types';
import { ClusterPage } from './cluster/cluster_page';
import { ComparePage } from './compare/compare_page';
import { JobPage } from './job/job_page';
import { JobsPage } from './jobs/jobs_page';
import { useKeys } from './keys';
import { navigate, parse_route, useAddress, type Route } from './router';
import { Header, useTheme } from './shell/header';
import { show_help } from './shell/help';
import { SignIn } from './shell/sign_in';
import { Button } from './ui/button';
import { DialogHost } from './ui/dialog';
import { EmptyState } from './ui/empty_state';
import { ToastHost } from './ui/toast';

function Page({ route, query }: { route: Route; query: URLSearchParams }) {
  switch (route.page) {
    case 'jobs':
      return <JobsPage />;
    case 'job':
      return <JobPage key={route.job} id={route.job} tab={route.tab} />;
    case 'compare':
      return <ComparePage jobs={query.getAll('job')} />;
    case 'cluster':
      return <ClusterPage />;
    case 'login':
      return <SignIn on_done={() => navigate('/', { replace: true })} />;
    case 'unknown':
      return (
        <main>
          <EmptyState title="There is no such page." whole_page>
            <Button onClick={() => navigate('/')}>All jobs</Button>
          </EmptyState>
        </main>
      );
  }
}

function useService(signed_out: boolean): Service | null {
  const [service, set_service] = useState<Service | null>(null);
  useEffect(() => {
    if (signed_out) return;
    // Only decoration of the header: what fails here is told by the page below it.
    get_json<Service>('/v1/service').then(set_service, () => undefined);
  }, [signed_out]);
  return service;
}

function focus_search(): void {
  const field = document.querySelector<HTMLInputElement>('[data-search]');
  if (field) field.select();
  else navigate('/');
}

export function App() {
  const { path, query } = useAddress();
  const route = parse_route(path);
  const must_sign_in = useStore(sign_in_needed);
  const [theme, next_theme] = useTheme();
  const service = useService(must_sign_in || route.page === 'login');
  useKeys({
    '/': focus_search,
    '?': show_help,
    t: next_theme,
    'g j': () => navigate('/'),
    'g c': () => navigate('/cluster'),
  });
  return (
    <>
      <Header page={route.page} service={service} theme={theme} next_theme={next_theme} />
      {must_sign_in && route.page !== 'login' && <SignIn />}
      <div id="main" hidden={must_sign_in && route.page !== 'login'}>
        <Page route={route} query={query} />
      </div>
      <DialogHost />
      <ToastHost />
    </>
  );
}
