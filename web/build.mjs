// Builds the page: src/ -> dist/ (index.html, assets/*). The same sources and the same esbuild give the same bytes, and files
// that are current are not written again.
// `node build.mjs --check` compares what it would write with dist/ instead of writing it; --out DIR writes elsewhere.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const kMostGzipBytes = 90_000;
const here = dirname(fileURLToPath(import.meta.url));
const { values: options } = parseArgs({
  options: { check: { type: 'boolean', default: false }, out: { type: 'string', default: join(here, 'dist') } },
});

const out = resolve(options.out);

const result = await build({
  absWorkingDir: here,
  entryPoints: ['src/main.tsx', 'src/theme-early.ts', 'src/styles/page.css'],
  entryNames: 'assets/[name]-[hash]',
  outdir: 'dist',
  bundle: true,
  minify: true,
  format: 'esm',
  target: ['es2022', 'chrome110', 'firefox115', 'safari16'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  charset: 'utf8',
  write: false,
  logLevel: 'warning',
});

/** Every file of dist/: path -> bytes. */
const files = new Map();
const asset = {};
for (const file of result.outputFiles) {
  const name = `assets/${basename(file.path)}`;
  files.set(name, Buffer.from(file.contents));
  asset[basename(file.path).replace(/-[A-Z0-9]+(\.\w+)$/, '$1')] = `/${name}`;
}
const icon = readFileSync(join(here, 'src/icon.svg'));
const icon_name = `assets/icon-${createHash('sha256').update(icon).digest('hex').slice(0, 8).toUpperCase()}.svg`;
files.set(icon_name, icon);
files.set(
  'index.html',
  Buffer.from(
    readFileSync(join(here, 'src/index.html'), 'utf8')
      .replace('{{icon}}', `/${icon_name}`)
      .replace('{{theme}}', asset['theme-early.js'])
      .replace('{{style}}', asset['page.css'])
      .replace('{{script}}', asset['main.js']),
  ),
);

let total = 0;
for (const [name, bytes] of [...files].sort()) {
  const packed = gzipSync(bytes, { level: 9 }).length;
  total += packed;
  console.log(`${name.padEnd(36)} ${String(bytes.length).padStart(8)} ${String(packed).padStart(7)} gzip`);
}
console.log(`${'in all'.padEnd(45)} ${String(total).padStart(7)} gzip of at most ${kMostGzipBytes}`);
if (total > kMostGzipBytes) {
  console.error(`the page has ${total} bytes after gzip, more than ${kMostGzipBytes}`);
  process.exit(1);
}

const kept = existsSync(out)
  ? readdirSync(out, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(out.length + 1))
  : [];
const stale = [...new Set([...kept, ...files.keys()])].filter(
  (name) => !files.has(name) || !kept.includes(name) || !files.get(name).equals(readFileSync(join(out, name))),
);
if (options.check && stale.length > 0) {
  console.error(`${out} is not what the sources give: ${stale.sort().join(', ')}; run make page`);
  process.exit(1);
}
if (stale.length > 0) {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, 'assets'), { recursive: true });
  for (const [name, bytes] of files) writeFileSync(join(out, name), bytes);
}
