import { spark_points } from './spark_points';

const kWidth = 72;
const kHeight = 20;

/** The recent course of a value; gaps where it was not finite. */
export function Sparkline({ values, label }: { values: readonly (number | null)[]; label: string }) {
  const lines = spark_points(values, kWidth, kHeight);
  if (lines.length === 0) return null;
  return (
    <svg class="sparkline" role="img" aria-label={label} viewBox={`0 0 ${kWidth} ${kHeight}`} width={kWidth} height={kHeight}>
      {lines.map((points, index) => (
        <polyline key={index} points={points} />
      ))}
    </svg>
  );
}
