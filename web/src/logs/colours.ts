// Colours that programs chose for a terminal's ground, so that they can be read on the page's.

type Rgb = readonly [number, number, number];

const kContrast = 5.5; // more than the 4.5 that people need, since rows have other grounds, too, when they are marked
const kLight: Rgb = [255, 255, 255];
const kDark: Rgb = [0x1a, 0x1e, 0x1c];

/** "#rrggbb" as it is readable on a light and on a dark page. */
export function on_page(colour: string): { light: string; dark: string } {
  const rgb = parse(colour);
  return { light: text_of(readable(rgb, kLight)), dark: text_of(readable(rgb, kDark)) };
}

/** "#rrggbb" as it is readable on the ground `ground`. */
export function on_ground(colour: string, ground: string): string {
  return text_of(readable(parse(colour), parse(ground)));
}

export function contrast(a: string, b: string): number {
  return ratio(parse(a), parse(b));
}

function readable(colour: Rgb, ground: Rgb): Rgb {
  const goal: Rgb = ratio([0, 0, 0], ground) > ratio(kLight, ground) ? [0, 0, 0] : kLight;
  for (let part = 0; part < 1; part += 0.1) {
    const mixed = colour.map((value, i) => value + (goal[i]! - value) * part) as unknown as Rgb;
    if (ratio(mixed, ground) >= kContrast) return mixed;
  }
  return goal;
}

function ratio(a: Rgb, b: Rgb): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as unknown as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function parse(colour: string): Rgb {
  const number = parseInt(colour.slice(1), 16);
  return [(number >> 16) & 255, (number >> 8) & 255, number & 255];
}

function text_of(rgb: Rgb): string {
  return '#' + rgb.map((value) => Math.round(value).toString(16).padStart(2, '0')).join('');
}
