// What the list shows before there is a job: the three ways to submit one.
import { CopyBlock } from '../ui/copy';

const kCommand = `cohort submit --name first -- python3 train.py`;

const kPython = `from cohort.estimator import Generic

Generic(entry_point="train.py", source_dir="code", instance_count=1, instance_type="local").fit()`;

function http_example(origin: string): string {
  return `curl ${origin}/v1/jobs -H "Authorization: Bearer $COHORT_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"spec": {"name": "first", "program": ["python3", "/path/to/train.py"]}}'`;
}

export function FirstJob() {
  const ways = [
    { title: 'On the command line', text: kCommand },
    { title: 'From Python', text: kPython },
    { title: 'Over HTTP', text: http_example(location.origin) },
  ];
  return (
    <section class="first-job">
      <h1>No jobs yet</h1>
      <p class="quiet-text">A job shows up here by itself as soon as it is submitted, in any of these ways:</p>
      {ways.map((way) => (
        <div key={way.title} class="first-way">
          <h2>{way.title}</h2>
          <CopyBlock text={way.text} label={way.title} />
        </div>
      ))}
    </section>
  );
}
