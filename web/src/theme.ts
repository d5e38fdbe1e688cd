// Light or dark: the system's choice unless the person chose. Only this preference is kept in the browser.
export type Theme = 'system' | 'light' | 'dark';

const kKey = 'cohort-theme';

export function stored_theme(): Theme {
  try {
    const value = localStorage.getItem(kKey);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system'; // Storage is switched off: the system's choice holds.
  }
}

export function apply_theme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new CustomEvent('cohort-theme'));
}

export function choose_theme(theme: Theme): void {
  apply_theme(theme);
  try {
    if (theme === 'system') localStorage.removeItem(kKey);
    else localStorage.setItem(kKey, theme);
  } catch {
    return; // Kept for this page only.
  }
}
