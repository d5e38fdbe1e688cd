import { useMemo, useState } from 'preact/hooks';
import { sentence_of } from '../api/client';
import type { Job } from '../api/types';
import { plural } from '../format';
import { useKeys } from '../keys';
import { job_address, navigate, set_query, useAddress } from '../router';
import { Button } from '../ui/button';
import { EmptyState, Loading } from '../ui/empty_state';
import { Link } from '../ui/link';
import { useNow } from '../ui/use_now';
import { VirtualTable } from '../ui/virtual_table';
import { stop_jobs } from './bulk_stop';
import { job_columns } from './columns';
import { FilterBar } from './filter_bar';
import { FirstJob } from './first_job';
import { filters_of, is_filtered, sort_of, sort_text, sorted_jobs, type SortKey } from './job_rows';
import { useJobs } from './use_jobs';

const kMostCompared = 8;

function compare_address(ids: readonly string[]): string {
  return `/compare?${ids.map((id) => `job=${encodeURIComponent(id)}`).join('&')}`;
}

interface SelectionBarProps {
  chosen: readonly Job[];
  clear: () => void;
  stop: () => void;
}

function SelectionBar({ chosen, clear, stop }: SelectionBarProps) {
  const can_compare = chosen.length >= 2 && chosen.length <= kMostCompared;
  return (
    <div class="selection-bar" role="group" aria-label="With the selected jobs">
      <span>{plural(chosen.length, 'job')} selected</span>
      <Button kind="danger" onClick={stop}>
        Stop
      </Button>
      {can_compare ? (
        <Link class="button plain" href={compare_address(chosen.map((job) => job.id))}>
          Compare
        </Link>
      ) : (
        <span class="quiet-text">Compare takes 2 to {kMostCompared}</span>
      )}
      <Button kind="quiet" onClick={clear}>
        Clear
      </Button>
    </div>
  );
}

export function JobsPage() {
  const { query } = useAddress();
  const filters = filters_of(query);
  const sort = sort_of(query);
  const list = useJobs(filters, sort_text(sort) !== '');
  const now = useNow();
  const [active, set_active] = useState(-1);
  const [selected, set_selected] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => sorted_jobs(list.rows ?? [], sort), [list.rows, sort.key, sort.descending]);
  const chosen = rows.filter((row) => selected.has(row.id));

  const toggle = (id: string): void => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    set_selected(next);
  };
  const all_selected = rows.length > 0 && chosen.length === rows.length;
  const toggle_all = (): void => set_selected(new Set(all_selected ? [] : rows.map((row) => row.id)));
  const on_sort = (key: SortKey): void => {
    const descending = sort.key === key ? !sort.descending : ['progress', 'tasks', 'submitted'].includes(key);
    set_query({ sort: sort_text({ key, descending }) });
  };
  const move = (by: number): void => set_active(Math.max(0, Math.min(rows.length - 1, active + by)));
  const current = rows[active];

  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => current && navigate(job_address(current.id)),
    x: () => current && toggle(current.id),
    s: () => void stop_jobs(chosen.length > 0 ? chosen : current ? [current] : []).then((any) => any && list.refresh()),
    Escape: () => (selected.size > 0 ? set_selected(new Set()) : set_active(-1)),
  });

  const stop_chosen = async (): Promise<void> => {
    if (!(await stop_jobs(chosen))) return;
    set_selected(new Set());
    list.refresh();
  };

  if (list.rows === null) {
    return <main>{list.error ? <EmptyState title={sentence_of(list.error)} whole_page /> : <Loading what="jobs" />}</main>;
  }
  if (rows.length === 0 && !is_filtered(filters)) {
    return (
      <main>
        <FirstJob />
      </main>
    );
  }
  return (
    <main class="jobs">
      <h1 class="off-screen">Jobs</h1>
      <FilterBar filters={filters} />
      {chosen.length > 0 && <SelectionBar chosen={chosen} clear={() => set_selected(new Set())} stop={() => void stop_chosen()} />}
      {rows.length === 0 ? (
        <EmptyState title="No job fits these filters.">
          <Button onClick={() => navigate('/')}>Show all jobs</Button>
        </EmptyState>
      ) : (
        <VirtualTable
          label="Jobs"
          rows={rows}
          columns={job_columns({ sort, on_sort, now, selected, toggle, toggle_all, all_selected })}
          key_of={(job) => job.id}
          row_class={(job) => (selected.has(job.id) ? 'selected' : '')}
          active={active}
          {...(list.complete ? {} : { on_end: list.load_more })}
        />
      )}
      <p class="list-foot quiet-text" role="status">
        {plural(rows.length, 'job')}
        {list.complete ? '' : ', older ones follow when you scroll'}
      </p>
    </main>
  );
}
