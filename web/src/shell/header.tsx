import { useState } from 'preact/hooks';
import { remove } from '../api/client';
import { useStore } from '../api/store';
import { lost_streams } from '../api/stream';
import type { Service } from '../api/types';
import { choose_theme, stored_theme, type Theme } from '../theme';
import { Button } from '../ui/button';
import { Link } from '../ui/link';
import { tell_error } from '../ui/toast';
import { show_help } from './help';

const kNextTheme: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' };
const kThemeMark: Record<Theme, string> = { system: '◐', light: '☀', dark: '☾' };

export function useTheme(): [Theme, () => void] {
  const [theme, set_theme] = useState(stored_theme());
  const next = (): void => {
    choose_theme(kNextTheme[theme]);
    set_theme(kNextTheme[theme]);
  };
  return [theme, next];
}

async function sign_out(): Promise<void> {
  try {
    await remove('/v1/session');
    location.assign('/login');
  } catch (error) {
    tell_error(error);
  }
}

interface HeaderProps {
  page: string;
  service: Service | null;
  theme: Theme;
  next_theme: () => void;
}

export function Header({ page, service, theme, next_theme }: HeaderProps) {
  const lost = useStore(lost_streams);
  const current = (names: readonly string[]) => (names.includes(page) ? 'page' : undefined);
  return (
    <header class="shell-head">
      <a class="skip button" href="#main">
        Skip to the content
      </a>
      <Link href="/" class="brand" aria-label="Cohort: all jobs">
        <svg width="20" height="20" viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" fill="#2f6f5e" />
          <circle cx="10" cy="10" r="3.2" fill="#fff" />
          <circle cx="22" cy="10" r="3.2" fill="#fff" />
          <circle cx="10" cy="22" r="3.2" fill="#fff" />
          <circle cx="22" cy="22" r="3.2" fill="#f2b84b" />
        </svg>
        <span class="brand-text">Cohort</span>
      </Link>
      <nav class="shell-nav" aria-label="Pages">
        <Link href="/" aria-current={current(['jobs', 'job'])}>
          Jobs
        </Link>
        <Link href="/cluster" aria-current={current(['cluster'])}>
          Cluster
        </Link>
      </nav>
      <div class="shell-side">
        <span role="status">
          {lost > 0 && (
            <span class="connection">
              <span class="connection-text">reconnecting </span>…
            </span>
          )}
        </span>
        {service && (
          <span class="who">
            {service.user} ({service.role})
          </span>
        )}
        <Button kind="quiet" onClick={next_theme} aria-label={`Theme: ${theme}. Switch to ${kNextTheme[theme]}`} title={`Theme: ${theme}`}>
          {kThemeMark[theme]}
        </Button>
        <Button kind="quiet" class="keys-button" onClick={show_help} aria-label="Keys" title="Keys (?)">
          ?
        </Button>
        {service && (
          <Button kind="quiet" onClick={() => void sign_out()}>
            Sign out
          </Button>
        )}
      </div>
    </header>
  );
}
