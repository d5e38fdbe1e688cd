import { defineConfig } from 'vitest/config';

// Waits are for conditions, not for times; the limit is for a machine that does much else.
export default defineConfig({ test: { include: ['test/**/*.test.ts'], testTimeout: 60_000 } });
