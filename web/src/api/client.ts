// Requests to the service. Every failure is an ApiError with a sentence that can be shown as it is.
import { wait_for_sign_in } from './session';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly advice: string = '',
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** "/v1/jobs" and {state: ["a", "b"], q: ""} -> "/v1/jobs?state=a&state=b": empty values are left out. */
export function with_query(path: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '' || value === false) continue;
    if (Array.isArray(value)) for (const each of value) parameters.append(name, each);
    else parameters.append(name, value === true ? '1' : String(value));
  }
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** The path of a job, or of what is below it: job_path("a", "files", "model/x") keeps the slashes of a file's path. */
export function job_path(job: string, ...rest: string[]): string {
  const encoded = rest.map((part) => part.split('/').map(encodeURIComponent).join('/'));
  return ['/v1/jobs', encodeURIComponent(job), ...encoded].join('/');
}

async function error_of(response: Response): Promise<ApiError> {
  try {
    const body = (await response.json()) as { error?: { message?: string; advice?: string | null } };
    if (body.error?.message) return new ApiError(response.status, body.error.message, body.error.advice ?? '');
  } catch {
    // Not the service's JSON (a proxy's page): the status is all there is to say.
  }
  return new ApiError(response.status, `The service answered ${response.status} ${response.statusText}.`.replace(' .', '.'));
}

/** Sends a request; on 401 asks to sign in and sends it again. Throws ApiError unless the answer is 2xx. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    let response: Response;
    try {
      response = await fetch(path, { credentials: 'same-origin', ...init });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new ApiError(0, 'The service does not answer.', 'It may be restarting; the page tries again by itself.');
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await error_of(response);
    await wait_for_sign_in();
  }
}

export async function get_json<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const response = await request(with_query(path, query), {
    headers: { Accept: 'application/json' },
    ...(signal ? { signal } : {}),
  });
  return (await response.json()) as T;
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  const response = await request(path, {
    method: 'POST',
    ...(body === undefined ? {} : { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }),
  });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

export async function remove(path: string): Promise<void> {
  await request(path, { method: 'DELETE' });
}

/** What to tell a person about `error`: its sentence, and the advice where there is one. */
export function sentence_of(error: unknown): string {
  if (error instanceof ApiError) return error.advice ? `${error.message} ${error.advice}` : error.message;
  return error instanceof Error ? error.message : String(error);
}
