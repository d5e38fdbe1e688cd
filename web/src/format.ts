// Numbers, sizes and times as people read them.

const kSizes = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Decimal units, as in the rest of Cohort: 1500 -> "1.5 kB". */
export function format_bytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < kSizes.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : value.toFixed(1)} ${kSizes[unit]}`;
}

/** A metric's value in few characters: 0.03125 -> "0.0313", 1234567 -> "1.23e6". */
export function format_value(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return 'not finite';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace('e+', 'e');
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(size >= 1000 ? 5 : size >= 1 ? 4 : 3)));
}

/** 75 -> "1m 15s", 7265 -> "2h 1m", 200000 -> "2d 7h"; the two largest units. */
export function format_duration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  const days = Math.floor(total / 86400);
  const hours = Math.floor((total % 86400) / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const rest = total % 60;
  if (days > 0) return hours > 0 ? `${days}d ${hours}h` : `${days}d`;
  if (hours > 0) return minutes > 0 ? `${hours}h ${minutes}m` : `${hours}h`;
  if (minutes > 0) return rest > 0 && minutes < 10 ? `${minutes}m ${rest}s` : `${minutes}m`;
  return `${rest}s`;
}

export function seconds_between(from: string | null, to: string | number): number {
  if (from === null) return 0;
  return ((typeof to === 'number' ? to : Date.parse(to)) - Date.parse(from)) / 1000;
}

/** How long ago: "12s", "3h 5m". */
export function format_age(time: string, now: number): string {
  return format_duration(seconds_between(time, now));
}

/** In the reader's zone, to the second: "2026-11-18 12:03:09". */
export function format_time(time: string | number): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return '';
  const two = (value: number): string => String(value).padStart(2, '0');
  return (
    `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  );
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
