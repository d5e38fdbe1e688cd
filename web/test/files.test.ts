import { describe, expect, it } from 'vitest';
import { looks_like_text, preview_kind } from '../src/files/preview_kind';
import { header_length, parse_header } from '../src/files/safetensors';

const bytes_of = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('preview_kind', () => {
  it('goes by the name', () => {
    expect(['output/a.PNG', 'model/model.safetensors', 'logs/1/worker-0.log', 'output/README', 'model/w.bin'].map(preview_kind)).toEqual([
      'image',
      'safetensors',
      'text',
      'text',
      'none',
    ]);
    expect(preview_kind('output/v1.2/file')).toBe('text');
  });

  it('does not take bytes for text', () => {
    expect(looks_like_text(bytes_of('plain\n'))).toBe(true);
    expect(looks_like_text(new Uint8Array([80, 75, 0, 1]))).toBe(false);
  });
});

describe('safetensors', () => {
  it('reads names, shapes and sizes', () => {
    const json = '{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]},"b":{"dtype":"F32","shape":[],"data_offsets":[48,52]}}';
    const header = parse_header(bytes_of(json));
    expect(header.metadata).toEqual([['format', 'pt']]);
    expect(header.parameters).toBe(13);
    expect(header.tensors[0]).toEqual({ name: 'w', dtype: 'F32', shape: [3, 4], bytes: 48 });
  });

  it('does not believe a header of exabytes, nor one without shapes', () => {
    expect(header_length(new Uint8Array([5, 1, 0, 0, 0, 0, 0, 0]))).toBe(261);
    expect(() => header_length(new Uint8Array(8).fill(255))).toThrow('no safetensors file');
    expect(() => header_length(new Uint8Array(3))).toThrow('shorter');
    expect(() => parse_header(bytes_of('{"w":{}}'))).toThrow('shape of w');
  });
});
