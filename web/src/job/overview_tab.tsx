// A job at a glance: its curve with what happened beside it, its tasks, and the last events. This is where one watches an
// elastic job lose a worker: the tile goes dark, a mark stands on the curve, and the curve goes on.
import { get_json, job_path } from '../api/client';
import { has_ended, type JobDetail, type TimelineEntry } from '../api/types';
import { format_duration, format_time, format_value, plural } from '../format';
import { job_address } from '../router';
import { Link } from '../ui/link';
import { usePolled } from '../ui/use_polled';
import { main_curve, type Course } from './course';
import { course_geometry, entry_sentence, is_marked } from './course_geometry';
import { TaskGrid } from './task_grid';

const kWidth = 1000;
const kHeight = 150;
const kShownEvents = 6;
const kEventsMs = 3000;

function CourseChart({ course, entries }: { course: Course; entries: readonly TimelineEntry[] }) {
  const curve = main_curve(course);
  const geometry = curve && course_geometry(curve, entries, kWidth, kHeight);
  if (!curve || !geometry) return null;
  const label = `${curve.name} over ${format_duration((geometry.end - geometry.begin) / 1000)}, now ${format_value(curve.last)}, ${plural(geometry.marks.length, 'change')} of the tasks on the way`;
  return (
    <section class="panel course" aria-label={`Course of ${curve.name}`}>
      <div class="section-head">
        <h2>{curve.name}</h2>
        <span class="quiet-text number">
          {format_value(curve.last)} at step {curve.step}
        </span>
      </div>
      <div class="course-box">
        <span class="course-high number">{format_value(geometry.high)}</span>
        <span class="course-low number">{format_value(geometry.low)}</span>
        <svg role="img" aria-label={label} viewBox={`0 0 ${kWidth} ${kHeight}`} preserveAspectRatio="none">
          {geometry.marks.map((mark, index) => (
            <line key={index} class={`course-mark k-${mark.kind}`} x1={mark.x} x2={mark.x} y1={0} y2={kHeight}>
              <title>{mark.text}</title>
            </line>
          ))}
          {geometry.lines.map((points, index) => (
            <polyline key={index} points={points} />
          ))}
        </svg>
      </div>
    </section>
  );
}

function LastEvents({ job, entries }: { job: JobDetail; entries: readonly TimelineEntry[] }) {
  if (entries.length === 0) return null;
  return (
    <section class="panel last-events" aria-label="Last events">
      <div class="section-head">
        <h2>What happened</h2>
        <Link href={job_address(job.id, 'timeline')}>Timeline</Link>
      </div>
      <ol aria-live="polite">
        {entries
          .slice(-kShownEvents)
          .reverse()
          .map((entry, index) => (
            <li key={`${entry.time} ${entry.text} ${index}`} class={is_marked(entry.kind) ? 'marked' : ''}>
              <time class="number quiet-text" dateTime={entry.time}>
                {format_time(entry.time).slice(11)}
              </time>
              <span>{entry_sentence(entry)}</span>
            </li>
          ))}
      </ol>
    </section>
  );
}

export function OverviewTab({ job, course, events }: { job: JobDetail; course: Course | null; events: number }) {
  const every = has_ended(job.state) ? 0 : kEventsMs;
  const timeline = usePolled(`${job.id} ${events}`, every, (signal) =>
    get_json<{ entries: TimelineEntry[] }>(job_path(job.id, 'timeline'), {}, signal),
  );
  const entries = timeline.value?.entries ?? [];
  return (
    <div class="overview stack">
      {job.notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      <div class="overview-top">
        {course && <CourseChart course={course} entries={entries} />}
        <LastEvents job={job} entries={entries} />
      </div>
      <TaskGrid job={job} />
    </div>
  );
}
