/** Points of polylines ("0.0,3.1 4.2,5.0") that show `values` in a box; one line for each run without gaps. */
export function spark_points(values: readonly (number | null)[], width: number, height: number): string[] {
  const finite = values.filter((value): value is number => value !== null && Number.isFinite(value));
  if (finite.length < 2) return [];
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  const margin = 1.5;
  const x_of = (index: number): number => margin + (index / (values.length - 1)) * (width - 2 * margin);
  const y_of = (value: number): number =>
    high === low ? height / 2 : margin + ((high - value) / (high - low)) * (height - 2 * margin);
  const lines: string[] = [];
  let line: string[] = [];
  const finish = (): void => {
    if (line.length > 1) lines.push(line.join(' '));
    line = [];
  };
  values.forEach((value, index) => {
    if (value === null || !Number.isFinite(value)) finish();
    else line.push(`${x_of(index).toFixed(1)},${y_of(value).toFixed(1)}`);
  });
  finish();
  return lines;
}
