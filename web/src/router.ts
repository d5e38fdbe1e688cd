// Which page the address names. Filters live in the query, so that an address can be sent to a colleague.
import { Store, useStore } from './api/store';

export const kTabs = ['overview', 'charts', 'logs', 'timeline', 'files', 'configuration'] as const;
export type Tab = (typeof kTabs)[number];

export type Route =
  | { page: 'jobs' }
  | { page: 'job'; job: string; tab: Tab }
  | { page: 'compare' }
  | { page: 'cluster' }
  | { page: 'login' }
  | { page: 'unknown' };

export interface Address {
  path: string;
  query: URLSearchParams;
}

export function parse_route(path: string): Route {
  const parts = path.split('/').filter((part) => part !== '');
  if (parts.length === 0) return { page: 'jobs' };
  const [first, second, third] = parts;
  if (parts.length === 1 && (first === 'compare' || first === 'cluster' || first === 'login')) return { page: first };
  if (parts.length === 1 && first === 'jobs') return { page: 'jobs' };
  if (first === 'jobs' && second !== undefined && parts.length <= 3) {
    const tab = third === undefined ? 'overview' : kTabs.find((name) => name === third);
    const job = decoded(second);
    if (tab !== undefined && job !== null) return { page: 'job', job, tab };
  }
  return { page: 'unknown' };
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

export function job_address(job: string, tab: Tab = 'overview'): string {
  const path = `/jobs/${encodeURIComponent(job)}`;
  return tab === 'overview' ? path : `${path}/${tab}`;
}

function current(): Address {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

const address = new Store<Address>(typeof location === 'undefined' ? { path: '/', query: new URLSearchParams() } : current());
if (typeof window !== 'undefined') addEventListener('popstate', () => address.set(current()));

/** Goes to a local address ("/jobs/x?task=y"); `replace` leaves no entry in the history. */
export function navigate(url: string, options: { replace?: boolean } = {}): void {
  const target = new URL(url, location.origin);
  if (target.origin !== location.origin) return;
  const text = target.pathname + target.search;
  if (text === location.pathname + location.search) return;
  history[options.replace ? 'replaceState' : 'pushState'](null, '', text);
  address.set(current());
  if (!options.replace) scrollTo(0, 0);
}

/** Changes parameters of the address in place; an empty value removes one. */
export function set_query(changes: Record<string, string | readonly string[] | null>): void {
  const query = changed_query(current().query, changes);
  const text = query.toString();
  navigate(location.pathname + (text ? `?${text}` : ''), { replace: true });
}

export function changed_query(query: URLSearchParams, changes: Record<string, string | readonly string[] | null>): URLSearchParams {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    if (value === null || value === '') continue;
    for (const each of typeof value === 'string' ? [value] : value) next.append(name, each);
  }
  return next;
}

export function useAddress(): Address {
  return useStore(address);
}
