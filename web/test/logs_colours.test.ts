import { expect, test } from 'vitest';
import { contrast, on_ground, on_page } from '../src/logs/colours';

test('every colour can be read on a light and on a dark page, and on any ground', () => {
  const some = ['#000000', '#ffffff', '#ff8700', '#ffff00', '#0000ff', '#808080', '#1a1e1c', '#00ff00'];
  for (const colour of some) {
    const { light, dark } = on_page(colour);
    expect(contrast(light, '#ffffff'), colour).toBeGreaterThan(5);
    expect(contrast(dark, '#1a1e1c'), colour).toBeGreaterThan(5);
    for (const ground of some) expect(contrast(on_ground(colour, ground), ground), `${colour} on ${ground}`).toBeGreaterThan(4.5);
  }
});

test('a colour that can be read stays as it is', () => {
  expect(on_page('#0000ff').light).toBe('#0000ff');
  expect(on_page('#ffff00').dark).toBe('#ffff00');
  expect(contrast('#000000', '#ffffff')).toBeCloseTo(21);
});
