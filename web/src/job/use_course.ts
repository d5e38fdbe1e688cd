import { useEffect, useState } from 'preact/hooks';
import { ApiError, get_json, job_path } from '../api/client';
import { has_ended, type JobDetail, type Metric, type Series } from '../api/types';
import { course_of, with_last, with_metrics, type Course } from './course';

const kPoints = 300;
const kEveryMs = 1500;
const kPageRows = 5000;
const kLastIds = 500;

/** The metrics of a job, a few hundred points each, with what came since added every moment until the job has ended. */
export function useCourse(job: JobDetail | null): Course | null {
  const [course, set_course] = useState<Course | null>(null);
  const id = job?.id ?? '';
  const running = job !== null && !has_ended(job.state);

  useEffect(() => {
    if (id === '') return;
    const stop = new AbortController();
    let timer = 0;
    let known: Course | null = null;
    const read = async (): Promise<void> => {
      try {
        if (known === null) {
          const answer = await get_json<{ series: Series[] }>(job_path(id, 'series'), { points: kPoints }, stop.signal);
          const read = course_of(answer.series);
          const query = { after: Math.max(0, read.last_id - kLastIds), limit: kLastIds };
          const page = await get_json<{ metrics: Metric[] }>(job_path(id, 'metrics'), query, stop.signal);
          known = with_metrics(with_last(read, page.metrics), page.metrics);
        } else if (!document.hidden) {
          const query = { after: known.last_id, limit: kPageRows };
          const page = await get_json<{ metrics: Metric[] }>(job_path(id, 'metrics'), query, stop.signal);
          known = with_metrics(known, page.metrics);
        }
        if (!stop.signal.aborted) set_course(known);
      } catch (error) {
        // The job page itself tells that the service is away; a job that is gone has no course.
        if (stop.signal.aborted || (error instanceof ApiError && error.status === 404)) return;
      }
      if (running && !stop.signal.aborted) timer = window.setTimeout(() => void read(), kEveryMs);
    };
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, running]);
  return course;
}
