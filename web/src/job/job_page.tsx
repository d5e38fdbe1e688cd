import { useEffect } from 'preact/hooks';
import { ApiError, sentence_of } from '../api/client';
import type { JobDetail } from '../api/types';
import { ChartsTab } from '../charts/charts_tab';
import { FilesTab } from '../files/files_tab';
import { useKeys } from '../keys';
import { LogsTab } from '../logs/logs_tab';
import { job_address, kTabs, navigate, type Tab } from '../router';
import { TimelineTab } from '../timeline/timeline_tab';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import { Tabs } from '../ui/tabs';
import { ConfigurationTab } from './configuration_tab';
import type { Course } from './course';
import { FailurePanel } from './failure_panel';
import { JobHeader } from './job_header';
import { OverviewTab } from './overview_tab';
import { useCourse } from './use_course';
import { useJob } from './use_job';

function label_of(tab: Tab): string {
  return tab.charAt(0).toUpperCase() + tab.slice(1);
}

interface TabBodyProps {
  job: JobDetail;
  tab: Tab;
  course: Course | null;
  events: number;
}

function TabBody({ job, tab, course, events }: TabBodyProps) {
  switch (tab) {
    case 'overview':
      return <OverviewTab job={job} course={course} events={events} />;
    case 'charts':
      return <ChartsTab job={job} />;
    case 'logs':
      return <LogsTab job={job} />;
    case 'timeline':
      return <TimelineTab job={job} />;
    case 'files':
      return <FilesTab job={job} />;
    case 'configuration':
      return <ConfigurationTab job={job} />;
  }
}

function NoJob({ error }: { error: unknown }) {
  return (
    <main>
      <EmptyState title={sentence_of(error)} whole_page>
        {error instanceof ApiError && error.status === 404 && <Button onClick={() => navigate('/')}>All jobs</Button>}
      </EmptyState>
    </main>
  );
}

export function JobPage({ id, tab }: { id: string; tab: Tab }) {
  const { job, error, events, refresh } = useJob(id);
  const course = useCourse(job);
  const step_tab = (by: number): void => {
    const next = kTabs[(kTabs.indexOf(tab) + by + kTabs.length) % kTabs.length];
    if (next) navigate(job_address(id, next));
  };
  useKeys({ ']': () => step_tab(1), '[': () => step_tab(-1), Escape: () => navigate('/') });

  useEffect(() => {
    document.title = job ? `${job.name}: ${job.state} · Cohort` : 'Cohort';
    return () => {
      document.title = 'Cohort';
    };
  }, [job?.name, job?.state]);

  if (!job) return error ? <NoJob error={error} /> : <Loading what="the job" />;
  const items = kTabs.map((name) => ({ id: name, label: label_of(name), href: job_address(job.id, name) }));
  return (
    <main class="job stack">
      <JobHeader job={job} course={course} refresh={refresh} />
      {job.state === 'failed' && <FailurePanel job={job} brief={tab !== 'overview'} />}
      <Tabs items={items} current={tab} label="Parts of this job" />
      <TabBody job={job} tab={tab} course={course} events={events} />
    </main>
  );
}
