// Where in a list of rows a scroll bar stands. Browsers bound the height of an element (17 million
// pixels and less), a log of a million lines is taller. So the element is at most `kTallest` pixels; a
// small movement (wheel, keys) moves the rows by exactly as many pixels, a large one (the bar is dragged)
// moves to the same part of the list. Confined to one element; does not touch the document.

export const kTallest = 8_000_000;

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
    const moved = scroll_top - this.bar;
    if (Math.abs(moved) < 0.5) return false;
    const most = this.most;
    const most_bar = this.most_bar;
    if (most_bar === most) {
      this.position = Math.min(Math.max(0, scroll_top), most);
      this.bar = scroll_top;
      return false;
    }
    const is_step = Math.abs(moved) <= 2 * this.view;
    if (is_step) this.position = Math.min(Math.max(0, this.position + moved), most);
    else this.position = most_bar === 0 ? 0 : (Math.min(Math.max(0, scroll_top), most_bar) / most_bar) * most;
    this.bar = scroll_top;
    // The bar has come to an end and the list has not, or the other way round.
    const is_bar_at_end = scroll_top <= 0 || scroll_top >= most_bar;
    const is_list_at_end = this.position <= 0 || this.position >= most;
    if (!is_step || is_bar_at_end === is_list_at_end) return false;
    this.bar = this.bar_of(this.position);
    return true;
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
    if (most_bar === most) return position;
    if (position <= 0 || most === 0) return 0;
    if (position >= most) return most_bar;
    return Math.min(Math.max(1, Math.round((position / most) * most_bar)), most_bar - 1);
  }
}
