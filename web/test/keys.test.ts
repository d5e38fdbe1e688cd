import { describe, expect, it } from 'vitest';
import { KeySequence } from '../src/keys';

describe('KeySequence', () => {
  it('joins two keys that follow each other, and not after a pause', () => {
    const sequence = new KeySequence();
    expect(sequence.names('g', 0)).toEqual(['g']);
    expect(sequence.names('c', 100)).toEqual(['g c', 'c']);
    expect(sequence.names('g', 5000)).toEqual(['g']);
    expect(sequence.names('j', 9000)).toEqual(['j']);
  });
});
