// What the machine has, who holds it, and what the queue waits for.
import { get_json, sentence_of } from '../api/client';
import type { Cluster } from '../api/types';
import { format_age, format_bytes, plural } from '../format';
import { job_address } from '../router';
import { EmptyState, Loading } from '../ui/empty_state';
import { Link } from '../ui/link';
import { TableBox } from '../ui/table_box';
import { useNow } from '../ui/use_now';
import { usePolled } from '../ui/use_polled';
import { held_slots } from './held_slots';

const kEveryMs = 2000;
const kMostSlots = 512;

interface MeterProps {
  label: string;
  used: number;
  total: number;
  text: (value: number) => string;
}

function Meter({ label, used, total, text }: MeterProps) {
  const percent = total > 0 ? (100 * used) / total : 0;
  return (
    <div class="panel meter">
      <h2>{label}</h2>
      <p class="meter-figure number">
        {text(used)} <span class="quiet-text">of {text(total)} held</span>
      </p>
      <div class="progress" role="meter" aria-label={`${label} held`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(percent)}>
        <div class="progress-done" style={{ width: `${percent}%` }} />
      </div>
    </div>
  );
}

function Slots({ cluster }: { cluster: Cluster }) {
  if (cluster.total.cores > kMostSlots) return null;
  const slots = held_slots(cluster);
  return (
    <section class="panel" aria-label="Cores by job">
      <h2>Cores by job</h2>
      <div class="slots" aria-hidden="true">
        {slots.map((holder, index) => (
          <span key={index} class={holder < 0 ? 'slot' : `slot held s${(holder % 8) + 1}`} title={cluster.held[holder]?.name ?? 'free'} />
        ))}
      </div>
    </section>
  );
}

/** A job of another person may be hidden from who asks. */
function JobName({ job, name }: { job: string | null; name: string | null }) {
  return job === null ? <span class="quiet-text">another user's job</span> : <Link href={job_address(job)}>{name}</Link>;
}

function Held({ cluster }: { cluster: Cluster }) {
  if (cluster.held.length === 0) return <p class="quiet-text">No job holds anything now.</p>;
  return (
    <TableBox label="Jobs that hold resources">
      <table class="plain-table">
        <thead>
          <tr>
            <th>Job</th>
            <th>Owner</th>
            <th class="number">Instances</th>
            <th class="number">Cores</th>
            <th class="number">Memory</th>
            <th class="number">GPUs</th>
          </tr>
        </thead>
        <tbody>
          {cluster.held.map((row, index) => (
            <tr key={row.job ?? index}>
              <td>
                <span class={`slot held s${(index % 8) + 1}`} aria-hidden="true" /> <JobName job={row.job} name={row.name} />
              </td>
              <td>{row.user}</td>
              <td class="number">{row.instances}</td>
              <td class="number">{row.cores}</td>
              <td class="number">{row.memory > 0 ? format_bytes(row.memory) : 'any'}</td>
              <td class="number">{row.gpus}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function Waiting({ cluster, now }: { cluster: Cluster; now: number }) {
  if (cluster.waiting.length === 0) return <p class="quiet-text">Nothing waits.</p>;
  return (
    <TableBox label="Jobs that wait">
      <table class="plain-table">
        <thead>
          <tr>
            <th>Place</th>
            <th>Job</th>
            <th>Owner</th>
            <th>Waits for</th>
            <th class="number">Since</th>
          </tr>
        </thead>
        <tbody>
          {cluster.waiting.map((row, index) => (
            <tr key={row.job ?? index}>
              <td>{row.place ?? 'later'}</td>
              <td>
                <JobName job={row.job} name={row.name} />
              </td>
              <td>{row.user}</td>
              <td>{row.reason}</td>
              <td class="number">{format_age(row.since, now)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

export function ClusterPage() {
  const { value: cluster, error } = usePolled('cluster', kEveryMs, (signal) => get_json<Cluster>('/v1/cluster', {}, signal));
  const now = useNow();
  if (!cluster) return <main>{error ? <EmptyState title={sentence_of(error)} whole_page /> : <Loading what="the cluster" />}</main>;
  const { total, free } = cluster;
  return (
    <main class="stack">
      <h1>Cluster</h1>
      <div class="meters">
        <Meter label="Cores" used={total.cores - free.cores} total={total.cores} text={String} />
        <Meter label="Memory" used={total.memory - free.memory} total={total.memory} text={format_bytes} />
        <Meter label="GPUs" used={total.gpus - free.gpus} total={total.gpus} text={String} />
      </div>
      <Slots cluster={cluster} />
      <section class="panel stack">
        <h2>Who holds it ({plural(cluster.held.length, 'job')})</h2>
        <Held cluster={cluster} />
      </section>
      <section class="panel stack">
        <h2>Queue ({plural(cluster.waiting.length, 'job')})</h2>
        <Waiting cluster={cluster} now={now} />
      </section>
    </main>
  );
}
