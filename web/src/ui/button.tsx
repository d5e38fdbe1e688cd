import type { ComponentChildren, JSX } from 'preact';

interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, 'icon'> {
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  type?: 'button' | 'submit';
  disabled?: boolean;
  children?: ComponentChildren;
}

export function Button({ kind = 'plain', type = 'button', children, ...rest }: ButtonProps) {
  return (
    <button type={type} {...rest} class={`button ${kind} ${typeof rest.class === 'string' ? rest.class : ''}`}>
      {children}
    </button>
  );
}
