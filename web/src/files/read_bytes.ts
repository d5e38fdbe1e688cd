import { request } from '../api/client';

/** Bytes [from, from + count) of a file, fewer at its end. Works where the service does not know ranges, too. */
export async function read_bytes(url: string, from: number, count: number, signal: AbortSignal): Promise<Uint8Array> {
  if (count === 0) return new Uint8Array();
  const response = await request(url, { headers: { Range: `bytes=${from}-${from + count - 1}` }, signal });
  const skip = response.status === 206 ? 0 : from;
  const reader = response.body?.getReader();
  if (!reader) return new Uint8Array();
  const pieces: Uint8Array[] = [];
  let held = 0;
  while (held < skip + count) {
    const { done, value } = await reader.read();
    if (done) break;
    pieces.push(value);
    held += value.length;
  }
  await reader.cancel();
  const all = new Uint8Array(held);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all.slice(skip, skip + count);
}
