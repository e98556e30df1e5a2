// The size of the first entry, minified and gzipped, as an application would ship it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

test('the first entry has 10.5 KiB at most, minified and gzipped, and asks nothing of Node', async (t) => {
  const entry = (name: string) => fileURLToPath(new URL(`../../src/${name}.ts`, import.meta.url))
  for (const name of ['index', 'once', 'ids', 'projectlock']) {
    // The platform "browser": an import of a module of Node would be an error.
    const got = await build({ entryPoints: [entry(name)], bundle: true, minify: true, format: 'esm', target: 'es2022', platform: 'browser', write: false, logLevel: 'silent' })
    const bytes = gzipSync(got.outputFiles[0]?.contents ?? '', { level: 9 }).length
    t.diagnostic(`${name}: ${bytes} bytes`)
    if (name === 'index') assert.ok(bytes > 0 && bytes <= 10_752, `${bytes} bytes`)
  }
})
