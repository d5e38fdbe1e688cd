import type { ComponentChildren, JSX } from 'preact';
import { navigate } from '../router';

interface LinkProps extends JSX.HTMLAttributes<HTMLAnchorElement> {
  href: string;
  children?: ComponentChildren;
}

/** A link inside the page. Ctrl-click and the middle button open a tab, as with any link. */
export function Link({ href, children, ...rest }: LinkProps) {
  const on_click = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a href={href} onClick={on_click} {...rest}>
      {children}
    </a>
  );
}
