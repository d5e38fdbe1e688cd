import type { ComponentChildren } from 'preact';
import type { JobDetail } from '../api/types';
import { format_duration, format_time, seconds_between } from '../format';
import { StateBadge } from '../ui/badge';
import { CopyBlock } from '../ui/copy';
import { TableBox } from '../ui/table_box';

function value_text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function Pairs({ pairs, names }: { pairs: readonly (readonly [string, unknown])[]; names: readonly [string, string] }) {
  return (
    <TableBox label={`${names[0]} and ${names[1].toLowerCase()}`}>
      <table class="plain-table pairs">
        <thead>
          <tr>
            <th>{names[0]}</th>
            <th>{names[1]}</th>
          </tr>
        </thead>
        <tbody>
          {pairs.map(([name, value]) => (
            <tr key={name}>
              <td class="mono">{name}</td>
              <td class="mono">{value_text(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="panel stack">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

function entries_of(value: unknown): [string, unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : [];
}

export function ConfigurationTab({ job }: { job: JobDetail }) {
  const hyperparameters = entries_of(job.spec['hyperparameters']);
  const environment = Object.entries(job.environment);
  return (
    <div class="configuration">
      <div class="stack">
        {job.command && (
          <Section title="Run it again">
            <CopyBlock text={job.command} label="The command that runs this job again" />
          </Section>
        )}
        <Section title="Hyperparameters">
          {hyperparameters.length > 0 ? <Pairs pairs={hyperparameters} names={['Name', 'Value']} /> : <p class="quiet-text">None.</p>}
        </Section>
        <Section title="Environment">
          {environment.length > 0 ? (
            <Pairs pairs={environment} names={['Variable', 'Value']} />
          ) : (
            <p class="quiet-text">The job sets no variables of its own.</p>
          )}
        </Section>
        <Section title="Attempts">
          <TableBox label="Attempts">
            <table class="plain-table">
              <thead>
                <tr>
                  <th>No.</th>
                  <th>State</th>
                  <th class="number">Workers</th>
                  <th>Started</th>
                  <th class="number">Took</th>
                </tr>
              </thead>
              <tbody>
                {job.attempts.map((attempt) => (
                  <tr key={attempt.number}>
                    <td>{attempt.number}</td>
                    <td>
                      <StateBadge state={attempt.state} />
                    </td>
                    <td class="number">{attempt.instances}</td>
                    <td>{attempt.started ? format_time(attempt.started) : ''}</td>
                    <td class="number">
                      {attempt.started && attempt.ended ? format_duration(seconds_between(attempt.started, attempt.ended)) : ''}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        </Section>
        {job.weights && (
          <Section title="Weights">
            <CopyBlock text={job.weights} label="Fingerprint of the weights: equal means the same bits" />
          </Section>
        )}
      </div>
      <div class="stack">
        {job.toml && (
          <Section title="Job file">
            <CopyBlock text={job.toml} label="The job file" />
          </Section>
        )}
        <Section title="Resolved description">
          <CopyBlock text={JSON.stringify(job.resolved, null, 2)} label="The description as JSON" />
        </Section>
      </div>
    </div>
  );
}
