import { ChartsTab } from '../charts/charts_tab';
import { LogsTab } from '../logs/logs_tab';
import { job_address, kTabs, type Tab } from '../router';
import { TimelineTab } from '../timeline/timeline_tab';
import type { JobDetail } from '../api/types';
import { sentence_of } from '../api/client';
import { EmptyState, Loading } from '../ui/empty_state';
import { Tabs } from '../ui/tabs';
import { useJob } from './use_job';

function label_of(tab: Tab): string {
  return tab.charAt(0).toUpperCase() + tab.slice(1);
}

function TabBody({ job, tab }: { job: JobDetail; tab: Tab }) {
  switch (tab) {
    case 'charts':
      return <ChartsTab job={job} />;
    case 'logs':
      return <LogsTab job={job} />;
    case 'timeline':
      return <TimelineTab job={job} />;
    default:
      return <EmptyState title={job.name} />;
  }
}

export function JobPage({ id, tab }: { id: string; tab: Tab }) {
  const { job, error } = useJob(id);
  if (!job) return error ? <EmptyState title={sentence_of(error)} /> : <Loading what="the job" />;
  const items = kTabs.map((name) => ({ id: name, label: label_of(name), href: job_address(job.id, name) }));
  return (
    <main class="job">
      <Tabs items={items} current={tab} label="Parts of this job" />
      <TabBody job={job} tab={tab} />
    </main>
  );
}
