/** A bar from 0 to 1; null: not known. */
export function Progress({ value, label }: { value: number | null; label: string }) {
  if (value === null) return null;
  const percent = Math.max(0, Math.min(100, value * 100));
  return (
    <div class="progress" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(percent)}>
      <div class="progress-done" style={{ width: `${percent}%` }} />
    </div>
  );
}
