// A real `cohort serve` of its own root folder, for tests and benchmarks of the page.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const source = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const bin = resolve(process.env.COHORT_BIN_DIR ?? join(source, 'build/bin'));
export const kPatienceMs = Number(process.env.COHORT_PAGE_PATIENCE_MS ?? 120_000);

/** Waits for what `condition` gives to be true; names `what` when it never is. */
export async function until(what, condition, limit_ms = kPatienceMs) {
  const limit = Date.now() + limit_ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > limit) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 40));
  }
}

/**
 * A port that is free now: a service that is started again must have the address of the one before. Below those that the
 * kernel gives to connections (32768 and more), so that none takes it while the service is away.
 */
async function free_port() {
  for (let tries = 0; ; ++tries) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    const server = createServer();
    try {
      await new Promise((done, failed) => server.once('error', failed).listen(port, '127.0.0.1', done));
      return port;
    } catch (error) {
      if (tries === 100) throw error;
    } finally {
      await new Promise((done) => server.close(done));
    }
  }
}

export class Service {
  static async start(...words) {
    const service = new Service();
    service.folder = mkdtempSync(join(tmpdir(), 'cohort-page-'));
    service.words = words;
    for (let tries = 0; ; ++tries) {
      service.port = await free_port();
      try {
        await service.run();
        return service;
      } catch (error) {
        if (tries === 4) throw error; // another program took the port
      }
    }
  }

  /** Starts the process; after `end` again with the same address and jobs. */
  async run() {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('COHORT_')));
    const page = process.env.COHORT_PAGE_DIR ? ['--page-dir', process.env.COHORT_PAGE_DIR] : [];
    const words = ['serve', '--root', join(this.folder, 'home'), '--listen', `127.0.0.1:${this.port}`, ...page, ...this.words];
    this.process = spawn(join(bin, 'cohort'), words.map(String), { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.errors = '';
    this.process.stderr.on('data', (bytes) => (this.errors = (this.errors + bytes).slice(-20_000)));
    this.ended = new Promise((done) => this.process.once('exit', done));
    const lines = createInterface({ input: this.process.stdout });
    const timer = setTimeout(() => this.process.kill('SIGKILL'), kPatienceMs);
    try {
      for await (const line of lines) {
        const file = /^token of an admin: (.+)$/.exec(line)?.[1];
        if (!file) continue;
        this.token = readFileSync(file, 'utf8').trim();
        this.address = `http://127.0.0.1:${this.port}`;
        this.process.stdout.resume();
        return;
      }
    } finally {
      clearTimeout(timer);
    }
    await this.ended;
    throw new Error(`the service does not start: ${this.errors}`);
  }

  async call(method, path, body, token = this.token) {
    const response = await fetch(this.address + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, Accept: 'application/json', ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? null : response.json();
  }

  async submit(program, fields = {}) {
    return (await this.call('POST', '/v1/jobs', { spec: { program, ...fields } })).id;
  }

  job(id) {
    return this.call('GET', `/v1/jobs/${id}`);
  }

  reaches(id, ...states) {
    const ended = ['succeeded', 'failed', 'stopped'];
    return until(`${id} to be ${states}`, async () => {
      const job = await this.job(id);
      if (states.includes(job.state)) return job;
      if (ended.includes(job.state)) throw new Error(`${id} is ${job.state}: ${job.reason}`);
      return null;
    });
  }

  async end(signal = 'SIGTERM') {
    this.process.kill(signal);
    const timer = setTimeout(() => this.process.kill('SIGKILL'), kPatienceMs);
    await this.ended;
    clearTimeout(timer);
  }

  /** Ends the jobs, too, and removes everything. */
  async remove() {
    try {
      const { jobs } = await this.call('GET', '/v1/jobs?state=running,queued,starting&limit=1000');
      await Promise.all(jobs.map((job) => this.call('POST', `/v1/jobs/${job.id}/stop`).catch(() => undefined)));
      await until('the jobs to end', async () => (await this.call('GET', '/v1/jobs?state=running,queued,starting,stopping')).jobs.length === 0);
    } finally {
      await this.end();
      rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    }
  }
}
