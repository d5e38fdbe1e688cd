// Where in a list of rows a scroll bar stands. Browsers bound the height of an element (17 million
// pixels and less), a log of a million lines is taller. So the element is at most `kTallest` pixels; a
// small movement (wheel, keys) moves the rows by exactly as many pixels, a large one (the bar is dragged)
// moves to the same part of the list. The first and last `kExact` pixels are always one to one, so that the
// bar never stands at its end before the list does. Confined to one element; does not touch the document.

export const kTallest = 8_000_000;
const kExact = 100_000;

export class ScrollMap {
  private position = 0; // pixels from the top of the list, as if the element were as tall as it
  private bar = 0; // scroll_top that belongs to it

  constructor(
    private readonly row_height: number,
    private rows = 0,
    private view = 0,
  ) {}

  get top(): number {
    return this.position;
  }
  get scroll_top(): number {
    return this.bar;
  }
  get height(): number {
    return Math.min(this.rows * this.row_height, kTallest);
  }
  get first_row(): number {
    return Math.floor(this.position / this.row_height);
  }
  // How many pixels of the first row are above the view.
  get hidden(): number {
    return this.position - this.first_row * this.row_height;
  }
  get rows_in_view(): number {
    return Math.ceil(this.view / this.row_height) + 1;
  }
  get at_end(): boolean {
    return this.position >= this.most - this.row_height / 2;
  }
  private get most(): number {
    return Math.max(0, this.rows * this.row_height - this.view);
  }
  private get most_bar(): number {
    return Math.max(0, this.height - this.view);
  }

  resize(rows: number, view: number): void {
    this.rows = rows;
    this.view = view;
    this.move_to(this.position);
  }

  // The element was scrolled by a person. True: set its scroll_top to `scroll_top` again.
  scrolled(scroll_top: number): boolean {
    const most_bar = this.most_bar;
    const bar = Math.min(Math.max(0, scroll_top), most_bar);
    const moved = bar - this.bar;
    if (Math.abs(moved) < 0.5) return false;
    const most = this.most;
    this.bar = bar;
    if (Math.abs(moved) > 2 * this.view) {
      this.position = this.position_of(bar);
      return false;
    }
    this.position = Math.min(Math.max(0, this.position + moved), most);
    // The bar has come to an end and the list has not, or the other way round.
    const is_bar_at_end = bar <= 0 || bar >= most_bar;
    const is_list_at_end = this.position <= 0 || this.position >= most;
    return is_bar_at_end !== is_list_at_end && this.settle();
  }

  // Puts the bar where it belongs, which many small movements have made wrong. True: set scroll_top.
  settle(): boolean {
    const right = this.bar_of(this.position);
    if (Math.abs(right - this.bar) < 1) return false;
    this.bar = right;
    return true;
  }

  move_to(position: number): void {
    this.position = Math.min(Math.max(0, position), this.most);
    this.bar = this.bar_of(this.position);
  }

  to_row(row: number, where: 'start' | 'center' = 'center'): void {
    this.move_to(row * this.row_height - (where === 'center' ? (this.view - this.row_height) / 2 : 0));
  }

  to_end(): void {
    this.move_to(Infinity);
  }

  private bar_of(position: number): number {
    const most = this.most;
    const most_bar = this.most_bar;
    if (most_bar === most || position <= kExact) return position;
    if (position >= most - kExact) return most_bar - (most - position);
    return kExact + ((position - kExact) / (most - 2 * kExact)) * (most_bar - 2 * kExact);
  }

  private position_of(bar: number): number {
    const most = this.most;
    const most_bar = this.most_bar;
    if (most_bar === most || bar <= kExact) return bar;
    if (bar >= most_bar - kExact) return most - (most_bar - bar);
    return kExact + ((bar - kExact) / (most_bar - 2 * kExact)) * (most - 2 * kExact);
  }
}
