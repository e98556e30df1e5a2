// The size of each entry, minified and gzipped, as an application would ship it.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** The most bytes of each. What an application that uses several entries shares is in each of them. The first one is to stay below 10 KiB, with room for a cure. */
const most: Record<string, number> = {
  index: 10_240 - 260, sets: 1800, once: 9900, idempotency: 6500, lambda: 1500, ids: 12_000, projectlock: 10_500, election: 2500, fences: 5000, errors: 2200,
}

const entries = Object.keys((JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { exports: object }).exports).filter((e) => !e.endsWith('.json'))

for (const entry of entries.map((e) => (e === '.' ? 'index' : e.slice(2))).filter((e) => e !== 'node')) {
  test(`the entry ${entry} is small, and asks nothing of Node`, async (t) => {
    const path = fileURLToPath(new URL(`../../src/${entry}.ts`, import.meta.url))
    // The platform "browser": an import of a module of Node would be an error.
    const got = await build({ entryPoints: [path], bundle: true, minify: true, format: 'esm', target: 'es2022', platform: 'browser', write: false, logLevel: 'silent' })
    const bytes = gzipSync(got.outputFiles[0]?.contents ?? '', { level: 9 }).length
    t.diagnostic(`${entry}: ${bytes} bytes`)
    assert.ok(bytes > 0 && bytes <= (most[entry] ?? 0), `${bytes} bytes`)
  })
}
