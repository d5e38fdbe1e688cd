import { useMemo, useState } from 'preact/hooks';
import type { JobDetail } from '../api/types';
import { format_age, format_bytes, format_duration, plural, seconds_between } from '../format';
import { job_address } from '../router';
import { StateBadge, tone_of } from '../ui/badge';
import { Button } from '../ui/button';
import { EmptyState } from '../ui/empty_state';
import { Link } from '../ui/link';
import { useNow } from '../ui/use_now';
import type { TaskInfo } from './task_usage';
import { useRestarted } from './use_restarted';
import { useTasks } from './use_tasks';
import { is_live, slow_tasks, sorted_tasks, state_counts } from './task_rules';

const kFew = 24;
const kMany = 160;

/** How much a tile says, by how many there are. */
function density_of(count: number): 'few' | 'many' | 'dots' {
  return count <= kFew ? 'few' : count <= kMany ? 'many' : 'dots';
}

function use_text(task: TaskInfo): string {
  const parts = [];
  if (typeof task.cpu === 'number') parts.push(`${task.cpu.toFixed(1)} cores`);
  if (typeof task.memory === 'number') parts.push(format_bytes(task.memory));
  if (typeof task.gpu_memory === 'number') parts.push(`GPU ${format_bytes(task.gpu_memory)}`);
  return parts.join(' · ');
}

interface TileProps {
  task: TaskInfo;
  density: 'few' | 'many' | 'dots';
  slow: string | undefined;
  restarted: boolean;
  chosen: boolean;
  choose: () => void;
}

function Tile({ task, density, slow, restarted, chosen, choose }: TileProps) {
  const label = [task.name, task.state, `on ${task.host}`, use_text(task), slow].filter(Boolean).join(', ');
  return (
    <button
      type="button"
      class={`tile tone-${tone_of(task.state)} ${is_live(task) ? '' : 'gone'} ${slow ? 'slow' : ''} ${restarted ? 'restarted' : ''}`}
      aria-label={density === 'dots' ? label : undefined}
      aria-pressed={chosen}
      title={label}
      onClick={choose}
    >
      {density !== 'dots' && <span class="tile-name">{density === 'few' ? task.name : task.name.replace(/^worker:/, '')}</span>}
      {density === 'many' && typeof task.step === 'number' && <span class="tile-use number">{task.step}</span>}
      {density === 'many' && <span class="off-screen">, {label}</span>}
      {density === 'few' && (
        <>
          <span class="tile-state">{restarted ? 'started again' : (slow ?? task.state)}</span>
          <span class="tile-use number">
            {task.host}
            {typeof task.step === 'number' ? ` · step ${task.step}` : ''}
            {task.restarts > 0 ? ` · ${plural(task.restarts, 'restart')}` : ''}
          </span>
          <span class="tile-use number">{use_text(task) || ' '}</span>
        </>
      )}
    </button>
  );
}

function TaskDetails({ job, task, slow, close }: { job: JobDetail; task: TaskInfo; slow: string | undefined; close: () => void }) {
  const now = useNow();
  const lasted = task.started ? (task.ended ? format_duration(seconds_between(task.started, task.ended)) : format_age(task.started, now)) : '';
  const facts: [string, string][] = [
    ['Host', task.host],
    ['Process', typeof task.pid === 'number' ? String(task.pid) : ''],
    ['Step', typeof task.step === 'number' ? String(task.step) : ''],
    ['Uses', use_text(task)],
    ['For', lasted],
    ['Restarts', String(task.restarts)],
    ['Exit code', task.exit_code === null ? '' : String(task.exit_code)],
  ];
  return (
    <section class="task-details panel" aria-label={`Task ${task.name}`}>
      <h3>{task.name}</h3>
      <StateBadge state={task.state} />
      {slow && <span class="badge tone-warn">{slow}</span>}
      <dl>
        {facts
          .filter(([, value]) => value !== '')
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd class="number">{value}</dd>
            </div>
          ))}
      </dl>
      <Link class="button plain" href={`${job_address(job.id, 'logs')}?task=${encodeURIComponent(task.name)}`}>
        Log
      </Link>
      <Button kind="quiet" onClick={close}>
        Close
      </Button>
    </section>
  );
}

export function TaskGrid({ job }: { job: JobDetail }) {
  const known = useTasks(job);
  const tasks = useMemo(() => sorted_tasks(known), [known]);
  const slow = useMemo(() => slow_tasks(known), [known]);
  const restarted = useRestarted(known);
  const [chosen, set_chosen] = useState('');
  if (tasks.length === 0) {
    return <EmptyState title={job.state === 'queued' ? 'Its tasks start when it leaves the queue.' : 'No task has started yet.'} />;
  }
  const density = density_of(tasks.length);
  const shown = tasks.find((task) => task.name === chosen);
  return (
    <section class="tasks stack" aria-label="Tasks">
      <div class="section-head">
        <h2>{plural(tasks.length, 'task')}</h2>
        <span class="quiet-text">
          {state_counts(tasks)
            .map(([state, count]) => `${count} ${state}`)
            .join(', ')}
        </span>
        {slow.size > 0 && <span class="badge tone-warn">{slow.size} slow</span>}
      </div>
      <div class={`grid ${density}`}>
        {tasks.map((task) => (
          <Tile
            key={task.name}
            task={task}
            density={density}
            slow={slow.get(task.name)}
            restarted={restarted.has(task.name)}
            chosen={task.name === chosen}
            choose={() => set_chosen(task.name === chosen ? '' : task.name)}
          />
        ))}
      </div>
      {shown && <TaskDetails job={job} task={shown} slow={slow.get(shown.name)} close={() => set_chosen('')} />}
    </section>
  );
}
