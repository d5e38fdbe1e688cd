// How far a reader has come in the logs of a job, as the service writes it into the id of each log event:
// "2;worker:0=4711;worker:1=12".

export interface Cursor {
  attempt: number;
  offsets: Map<string, number>;
}

export function parse_cursor(text: string): Cursor | null {
  const [attempt, ...rest] = text.split(';');
  if (!attempt || !/^\d{1,9}$/.test(attempt)) return null;
  const offsets = new Map<string, number>();
  for (const part of rest) {
    const equals = part.lastIndexOf('=');
    const offset = part.slice(equals + 1);
    if (equals < 1 || !/^\d{1,15}$/.test(offset)) return null;
    offsets.set(part.slice(0, equals), Number(offset));
  }
  return { attempt: Number(attempt), offsets };
}

export function cursor_text(cursor: Cursor): string {
  return [String(cursor.attempt), ...[...cursor.offsets].map(([task, offset]) => `${task}=${offset}`)].join(';');
}
