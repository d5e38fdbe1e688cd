import { parse_ansi, plain, without_ansi, type Span, type Style } from './ansi';
import { leading_time } from './lines';
import type { StyledLine } from './log_file';
import { mark } from './marks';

const kShown = 2000; // characters of a line in the list; the rest in a dialog

const kBad = /\b(?:error|exception|fatal|panic|traceback|segmentation fault|killed)\b|[a-z]Error\b/i;

function classes(style: Style, marked: boolean): string {
  const names: string[] = [];
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  if (style.inverse) names.push('log-inverse');
  if (fg !== null && fg[0] !== '#') names.push(`log-fg${fg}`);
  if (bg !== null && bg[0] !== '#') names.push(`log-bg${bg}`);
  if (style.bold) names.push('log-bold');
  if (style.dim) names.push('log-dim');
  if (style.italic) names.push('log-italic');
  if (style.underline) names.push('log-underline');
  if (marked) names.push('log-mark');
  return names.join(' ');
}

function colours(style: Style): { color?: string; backgroundColor?: string } {
  const [fg, bg] = style.inverse ? [style.bg, style.fg] : [style.fg, style.bg];
  return {
    ...(fg?.[0] === '#' ? { color: fg } : {}),
    ...(bg?.[0] === '#' ? { backgroundColor: bg } : {}),
  };
}

function behind(spans: readonly Span[], count: number): Span[] {
  const rest: Span[] = [];
  let left = count;
  for (const span of spans) {
    if (left >= span.text.length) left -= span.text.length;
    else {
      rest.push({ text: span.text.slice(left), style: span.style });
      left = 0;
    }
  }
  return rest;
}

export interface RowOptions {
  needle: string;
  matches_case: boolean;
  times: boolean;
  on_open: (line: StyledLine, label: string) => void;
}

interface LogRowProps extends RowOptions {
  line: StyledLine | null;
  label: string;
  tone?: number;
  current?: boolean;
}

export function LogRow({ line, label, tone, current, needle, matches_case, times, on_open }: LogRowProps) {
  const name = tone === undefined ? 'log-number' : `log-task log-tone${tone}`;
  if (!line || line.cut < 0)
    return (
      <div class="log-row">
        <span class={name}>{label}</span>
        <span class="log-text quiet-text">{line ? '(too long to be shown; download the log)' : ' '}</span>
      </div>
    );
  let spans: Span[] = line.text.includes('\x1b') || line.from !== plain ? parse_ansi(line.text.slice(0, 4 * kShown), line.from).spans : plain_spans(line.text);
  const text = spans.length === 1 ? spans[0]!.text : spans.map((span) => span.text).join('');
  const time = leading_time(text);
  if (time) spans = behind(spans, time.rest);
  let room = kShown;
  spans = spans.flatMap((span) => {
    const kept = span.text.slice(0, room);
    room -= kept.length;
    return kept === '' ? [] : [{ text: kept, style: span.style }];
  });
  const is_cut = line.cut > 0 || text.length > kShown || line.text.length > 4 * kShown;
  return (
    <div class={`log-row${kBad.test(text.slice(0, 500)) ? ' log-bad' : ''}${current ? ' log-current' : ''}`}>
      <span class={name}>{label}</span>
      <span class="log-text">
        {time && times ? <span class="log-time">{time.time} </span> : null}
        {mark(spans, needle, matches_case).map((piece, i) => {
          const name = classes(piece.style, piece.marked);
          if (name === '' && piece.style.fg === null && piece.style.bg === null) return piece.text;
          return (
            <span key={i} class={name} style={colours(piece.style)}>
              {piece.text}
            </span>
          );
        })}
        {is_cut ? (
          <button type="button" class="log-more" onClick={() => on_open(line, label)}>
            … whole line
          </button>
        ) : null}
      </span>
    </div>
  );
}

function plain_spans(text: string): Span[] {
  const cleaned = without_ansi(text);
  return cleaned === '' ? [] : [{ text: cleaned, style: plain }];
}

export function WholeLine({ line }: { line: StyledLine }) {
  return (
    <>
      <pre class="log-whole" tabIndex={0}>
        {without_ansi(line.text)}
      </pre>
      {line.cut > 0 ? <p class="quiet-text">{line.cut} more characters are in the file only.</p> : null}
    </>
  );
}
