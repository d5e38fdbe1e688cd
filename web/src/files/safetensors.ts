// The header of a safetensors file: 8 bytes with its length (little endian), then JSON: name -> dtype, shape, offsets.
export interface TensorEntry {
  name: string;
  dtype: string;
  shape: number[];
  bytes: number;
}

export interface SafetensorsHeader {
  tensors: TensorEntry[];
  metadata: [string, string][];
  parameters: number;
}

/** No header of a real model comes near it; a file that says more is not believed. */
const kMostHeaderBytes = 25_000_000;

export function header_length(first: Uint8Array): number {
  if (first.length < 8) throw new Error('The file is shorter than a safetensors header.');
  const length = new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true);
  if (length > BigInt(kMostHeaderBytes)) throw new Error(`The file names a header of ${length} bytes: it is no safetensors file.`);
  return Number(length);
}

export function parse_header(json: Uint8Array): SafetensorsHeader {
  const parsed: unknown = JSON.parse(new TextDecoder().decode(json));
  if (typeof parsed !== 'object' || parsed === null) throw new Error('The safetensors header is not an object.');
  const tensors: TensorEntry[] = [];
  let metadata: [string, string][] = [];
  for (const [name, value] of Object.entries(parsed as Record<string, unknown>)) {
    if (name === '__metadata__') {
      metadata = Object.entries(value as Record<string, string>).map(([key, text]) => [key, String(text)]);
      continue;
    }
    const { dtype, shape, data_offsets } = value as { dtype?: unknown; shape?: unknown; data_offsets?: unknown };
    if (typeof dtype !== 'string' || !Array.isArray(shape) || !Array.isArray(data_offsets)) {
      throw new Error(`The safetensors header says nothing about the shape of ${name}.`);
    }
    tensors.push({ name, dtype, shape: shape.map(Number), bytes: Number(data_offsets[1]) - Number(data_offsets[0]) });
  }
  const parameters = tensors.reduce((sum, tensor) => sum + tensor.shape.reduce((size, each) => size * each, 1), 0);
  return { tensors, metadata, parameters };
}
