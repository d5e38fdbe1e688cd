// Server-sent events out of a stream of text, as the HTML standard frames them.
export interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

export class SseParser {
  private rest = '';
  private event = '';
  private data: string[] = [];
  private id = '';

  /** Events that are complete with `text`; what is unfinished waits for the next piece. */
  feed(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const whole = this.rest + text;
    // A CR at the very end may be the first half of CRLF: it waits.
    const usable = whole.endsWith('\r') ? whole.length - 1 : whole.length;
    let start = 0;
    for (let at = 0; at < usable; ++at) {
      const c = whole[at];
      if (c !== '\n' && c !== '\r') continue;
      const line = whole.slice(start, at);
      if (c === '\r' && whole[at + 1] === '\n') ++at;
      start = at + 1;
      const event = this.line(line);
      if (event) events.push(event);
    }
    this.rest = whole.slice(start);
    return events;
  }

  private line(line: string): ServerEvent | null {
    if (line === '') {
      const event = this.data.length > 0 ? { event: this.event || 'message', id: this.id, data: this.data.join('\n') } : null;
      this.event = '';
      this.data = [];
      return event;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.id = value;
    return null;
  }
}
